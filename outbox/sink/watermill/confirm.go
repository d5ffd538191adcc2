package watermill

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/ThreeDotsLabs/watermill/message"
)

// ErrUnconfirmed says that a publisher returns before the broker has confirmed, so that
// messages could be lost.
var ErrUnconfirmed = errors.New("publisher does not wait until the broker has confirmed")

// known are publishers that can be set so that they don't wait, by the package that they are
// from. Each returns what has to be changed, or nothing.
var known = []struct {
	path string
	look func(publisher reflect.Value) string
}{
	{"github.com/ThreeDotsLabs/watermill-amqp", func(p reflect.Value) string {
		if confirms, found := field(p, "config", "Publish", "ConfirmDelivery"); found && !confirms.Bool() {
			return "set Publish.ConfirmDelivery"
		}
		return ""
	}},
	{"github.com/ThreeDotsLabs/watermill-kafka", func(p reflect.Value) string {
		const waitForAll = -1
		acks, found := field(p, "config", "OverwriteSaramaConfig", "Producer", "RequiredAcks")
		if !found || acks.Int() != waitForAll {
			return "set OverwriteSaramaConfig with Producer.RequiredAcks = WaitForAll and Producer.Idempotent"
		}
		return ""
	}},
	{"github.com/ThreeDotsLabs/watermill-nats", func(p reflect.Value) string {
		if disabled, found := field(p, "config", "JetStream", "Disabled"); found && disabled.Bool() {
			return "enable JetStream"
		}
		return ""
	}},
	{"github.com/ThreeDotsLabs/watermill/pubsub/gochannel", func(p reflect.Value) string {
		persistent, _ := field(p, "config", "Persistent")
		blocks, found := field(p, "config", "BlockPublishUntilSubscriberAck")
		if found && !persistent.Bool() && !blocks.Bool() {
			return "set Persistent or BlockPublishUntilSubscriberAck"
		}
		return ""
	}},
}

// checkConfirms looks at the publisher's configuration, which adapters keep to themselves,
// by reflection. What it does not know it accepts.
func checkConfirms(publisher message.Publisher) error {
	value := reflect.ValueOf(publisher)
	kind := value.Type()
	if kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	for _, one := range known {
		path := kind.PkgPath()
		if path != one.path && !strings.HasPrefix(path, one.path+"/") {
			continue
		}
		if remedy := one.look(value); remedy != "" {
			return fmt.Errorf("%w: %s: %s", ErrUnconfirmed, kind, remedy)
		}
	}
	return nil
}

// field follows names through structs and pointers.
func field(value reflect.Value, names ...string) (found reflect.Value, ok bool) {
	for _, name := range append([]string{""}, names...) {
		if name != "" {
			if value.Kind() != reflect.Struct {
				return reflect.Value{}, false
			}
			value = value.FieldByName(name)
		}
		for value.IsValid() && value.Kind() == reflect.Pointer {
			if value.IsNil() {
				return reflect.Value{}, false
			}
			value = value.Elem()
		}
		if !value.IsValid() {
			return reflect.Value{}, false
		}
	}
	return value, true
}
