package nats

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/nats-io/nats.go"
)

// Defaults of [Config].
const (
	// DefaultAckWait is twice the server's own: it leaves room for a handler that takes
	// half of it.
	DefaultAckWait = 60 * time.Second
	// DefaultNackDelay keeps one failing message from turning into thousands of
	// redeliveries a second.
	DefaultNackDelay = time.Second
	// DefaultMaxAckPending is the server's own.
	DefaultMaxAckPending = 1000
	// DefaultCloseTimeout ends before the 30 s that Watermill's router and most
	// orchestrators give a process to stop.
	DefaultCloseTimeout = 25 * time.Second
	// Unlimited is the MaxDeliver that never gives a message up.
	Unlimited = -1
)

// Config says what to read and how long to wait. Every field that is wrong is named by
// the error of [NewSubscriber].
type Config struct {
	// Conn is the connection to read on. Close leaves it open. Required unless URL is set.
	Conn *nats.Conn
	// URL is the server's address; several are joined by commas. The subscriber makes its
	// own connection, which reconnects for ever and which Close closes. Required unless
	// Conn is set.
	URL string
	// Stream is the name of the stream, which must exist. Required.
	Stream string
	// Durable is the name of the durable consumer, made when it is missing and never
	// deleted. Processes that name the same durable share its messages. It holds the place
	// in the stream: with another name everything is delivered once more. Required.
	Durable string
	// FilterSubject limits the durable to the subjects that match it; wildcards are
	// allowed. It is also the topic to subscribe to. Defaults to all subjects of the
	// stream; the topic is then the stream's name.
	FilterSubject string
	// AckWait is how long the server waits for the answer to a delivery; then it delivers
	// the message again, even while the first handler is still at work. It is also how
	// long the messages of a killed process are away. Defaults to 60 s.
	AckWait time.Duration
	// HandlerTimeout is the longest that one run of the handler takes: the same number
	// that bounds the handler where it is configured. It is compared, not enforced, and
	// must be below AckWait. Defaults to half of AckWait.
	HandlerTimeout time.Duration
	// NackDelay is how long a nacked message stays away, unless the consumer asks for
	// another time. Defaults to 1 s.
	NackDelay time.Duration
	// Concurrency is how many messages this subscription has in work at once. Above 1 the
	// order of messages is lost. Defaults to 1.
	Concurrency int
	// MaxAckPending is how many messages all processes of the durable may have in work or
	// nacked and waiting. When it is reached nothing is delivered, so it must leave room
	// for nacked messages beside the Concurrency of every process. Defaults to 1000. It
	// is used when the durable is made.
	MaxAckPending int
	// MaxDeliver is how many times the server delivers a message. Anything but Unlimited
	// loses a message for this durable after its last delivery, with no dead letter:
	// attempts are better counted in the store. Defaults to Unlimited.
	MaxDeliver int
	// CloseTimeout is how long a stopping subscription waits for the handlers that are at
	// work. Defaults to 25 s.
	CloseTimeout time.Duration
	// Logger gets what can't be returned. Defaults to none.
	Logger watermill.LoggerAdapter
}

func (c Config) withDefaults() Config {
	if c.AckWait == 0 {
		c.AckWait = DefaultAckWait
	}
	if c.HandlerTimeout == 0 {
		c.HandlerTimeout = c.AckWait / 2
	}
	if c.NackDelay == 0 {
		c.NackDelay = DefaultNackDelay
	}
	if c.Concurrency == 0 {
		c.Concurrency = 1
	}
	if c.MaxAckPending == 0 {
		c.MaxAckPending = DefaultMaxAckPending
	}
	if c.MaxDeliver == 0 {
		c.MaxDeliver = Unlimited
	}
	if c.CloseTimeout == 0 {
		c.CloseTimeout = DefaultCloseTimeout
	}
	if c.Logger == nil {
		c.Logger = watermill.NopLogger{}
	}
	return c
}

// validate expects the defaults to be filled in.
func (c Config) validate() error {
	var wrong []error
	refuse := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }

	switch {
	case c.Conn == nil && c.URL == "":
		refuse("Conn, URL: one is required")
	case c.Conn != nil && c.URL != "":
		refuse("Conn, URL: both are set; use one")
	}
	if fault := nameFault(c.Stream); fault != "" {
		refuse("Stream: %s", fault)
	}
	if fault := nameFault(c.Durable); fault != "" {
		refuse("Durable: %s", fault)
	}
	if c.FilterSubject != "" {
		if fault := subjectFault(c.FilterSubject); fault != "" {
			refuse("FilterSubject: %s", fault)
		}
	}
	if c.AckWait < 0 {
		refuse("AckWait: %v is negative", c.AckWait)
	}
	if c.HandlerTimeout < 0 {
		refuse("HandlerTimeout: %v is negative", c.HandlerTimeout)
	}
	if c.AckWait > 0 && c.HandlerTimeout >= c.AckWait {
		refuse("HandlerTimeout: %v is not below AckWait %v: a slow handler would meet its own redelivery",
			c.HandlerTimeout, c.AckWait)
	}
	if c.NackDelay < 0 {
		refuse("NackDelay: %v is negative", c.NackDelay)
	}
	if c.Concurrency < 0 {
		refuse("Concurrency: %d is negative", c.Concurrency)
	}
	if c.MaxAckPending < c.Concurrency {
		refuse("MaxAckPending: %d is below Concurrency %d", c.MaxAckPending, c.Concurrency)
	}
	if c.MaxDeliver < Unlimited {
		refuse("MaxDeliver: %d is neither positive nor Unlimited", c.MaxDeliver)
	}
	if c.CloseTimeout < 0 {
		refuse("CloseTimeout: %v is negative", c.CloseTimeout)
	}
	return errors.Join(wrong...)
}

// topic is what a caller subscribes to.
func (c Config) topic() string {
	if c.FilterSubject == "" {
		return c.Stream
	}
	return c.FilterSubject
}

// nameFault says what keeps name from being a stream's or a consumer's; empty: nothing.
func nameFault(name string) string {
	switch {
	case name == "":
		return "required"
	case strings.ContainsAny(name, " \t\r\n\f.*>/\\\x00"):
		return "holds a space, a dot, a wildcard or a slash"
	}
	return ""
}

// subjectFault says what keeps subject from being a filter; empty: nothing.
func subjectFault(subject string) string {
	if strings.ContainsAny(subject, " \t\r\n\f\x00") {
		return "holds a space or a control character"
	}
	tokens := strings.Split(subject, ".")
	for i, token := range tokens {
		switch {
		case token == "":
			return "has an empty part between its dots"
		case token == ">" && i < len(tokens)-1:
			return "has the wildcard > before its end"
		}
	}
	return ""
}
