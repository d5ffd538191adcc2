package consumer

import (
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/oncebox/oncebox/dedup"
)

// attributePrefixes is how the bindings of CloudEvents 1.0 name attributes in metadata:
// HTTP and NATS, Kafka, and the two of AMQP.
var attributePrefixes = []string{"ce-", "ce_", "cloudEvents:", "cloudEvents_"}

// CloudEvent takes source and id of a CloudEvents 1.0 message, which together name an
// event, from metadata (binary mode) or from a JSON payload (structured mode). The event's
// time is not used: it may change when an event is sent again.
func CloudEvent() Keyer {
	return keyer{KeyFunc: func(msg *message.Message) (dedup.Key, error) {
		source, id := eventAttribute(msg, "source"), eventAttribute(msg, "id")
		if source == "" && id == "" && isStructured(msg) {
			document, err := dedup.ParseJSON(msg.Payload)
			if err != nil {
				return dedup.Key{}, fmt.Errorf("CloudEvent: %w", err)
			}
			source, _ = document.Lookup("source").KeyText() // what is no text is missing
			id, _ = document.Lookup("id").KeyText()
		}
		switch {
		case source == "" && id == "":
			return dedup.Key{}, fmt.Errorf("CloudEvent: %w", ErrNoKey)
		case source == "":
			return dedup.Key{}, fmt.Errorf("CloudEvent: source is missing: an id is unique only within it")
		case id == "":
			return dedup.Key{}, fmt.Errorf("CloudEvent: id is missing")
		}
		return dedup.Key{Scope: dedup.Global, ID: dedup.JoinParts(source, id)}, nil
	}}
}

func eventAttribute(msg *message.Message, name string) string {
	for _, prefix := range attributePrefixes {
		if value := msg.Metadata.Get(prefix + name); value != "" {
			return value
		}
	}
	return ""
}

// isStructured looks at the content type, under the names that adapters give it.
func isStructured(msg *message.Message) bool {
	for name, value := range msg.Metadata {
		switch strings.ToLower(name) {
		case "content-type", "content_type", "contenttype":
			return strings.HasPrefix(strings.ToLower(value), "application/cloudevents+json")
		}
	}
	return false
}
