package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
)

// Metadata that [Unmarshal] adds. A header of the same name is dropped, so what a message
// says under these names is the server's word, except for MetadataMsgID, which the
// producer chose.
const (
	// MetadataStream is the name of the stream.
	MetadataStream = "nats_stream"
	// MetadataSequence is the message's number in the stream, decimal, from 1.
	MetadataSequence = "nats_sequence"
	// MetadataDelivered is how many times the durable has delivered the message, decimal,
	// this delivery included.
	MetadataDelivered = "nats_delivered"
	// MetadataTimestamp is when the stream stored the message: RFC 3339 with nanoseconds,
	// UTC. It is the same for every delivery.
	MetadataTimestamp = "nats_timestamp"
	// MetadataSubject is the subject that the message was published to.
	MetadataSubject = "nats_subject"
	// MetadataMsgID is the producer's Nats-Msg-Id. Absent when there is none.
	MetadataMsgID = "nats_msg_id"
)

// uuidHeader is where Watermill's NATS publishers put a message's UUID.
const uuidHeader = "_watermill_message_uuid"

// serverPrefix starts the names of headers that instruct the server. Copied to a produced
// message they would make it a duplicate of this one, or be refused.
const serverPrefix = "Nats-"

// Unmarshal turns a delivery into a Watermill message, whoever produced it. Its UUID is the
// Nats-Msg-Id if there is one, else Watermill's own header, else stream:sequence; it is
// never empty. Headers become metadata; one with several values becomes a JSON array of
// them; those of the server (Nats-…) are left out. It returns an error when msg was not
// delivered by JetStream.
func Unmarshal(msg jetstream.Msg) (*message.Message, error) {
	at, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read coordinates: %w", err)
	}
	headers := msg.Headers()
	metadata := make(message.Metadata, len(headers)+6)
	for name, values := range headers {
		if len(values) > 0 && !reserved(name) {
			metadata[name] = joined(values)
		}
	}
	sequence := strconv.FormatUint(at.Sequence.Stream, 10)
	metadata[MetadataStream] = at.Stream
	metadata[MetadataSequence] = sequence
	metadata[MetadataDelivered] = strconv.FormatUint(at.NumDelivered, 10)
	metadata[MetadataTimestamp] = at.Timestamp.UTC().Format(time.RFC3339Nano)
	metadata[MetadataSubject] = msg.Subject()

	uuid := first(headers[uuidHeader])
	if id := first(headers[jetstream.MsgIDHeader]); id != "" {
		metadata[MetadataMsgID] = id
		uuid = id
	}
	if uuid == "" {
		uuid = at.Stream + ":" + sequence
	}
	made := message.NewMessage(uuid, msg.Data())
	made.Metadata = metadata
	return made, nil
}

func reserved(name string) bool {
	switch name {
	case uuidHeader, MetadataStream, MetadataSequence, MetadataDelivered,
		MetadataTimestamp, MetadataSubject, MetadataMsgID:
		return true
	}
	return len(name) >= len(serverPrefix) && strings.EqualFold(name[:len(serverPrefix)], serverPrefix)
}

// first is what Header.Get returns, except that it doesn't panic on a header without any.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func joined(values []string) string {
	if len(values) == 1 {
		return values[0]
	}
	array, _ := json.Marshal(values) // strings always marshal
	return string(array)
}
