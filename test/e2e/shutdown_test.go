package e2e_test

import (
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	natsgo "github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/oncebox/oncebox/consumer"
	"github.com/oncebox/oncebox/consumer/nats"
)

// route runs a router with one handler until stop is called, which waits for its end.
func route(t *testing.T, conn *natsgo.Conn, box *consumer.Consumer, handle message.HandlerFunc) (stop func()) {
	t.Helper()
	config := billing(conn)
	config.AckWait, config.HandlerTimeout, config.NackDelay = 2*time.Second, time.Second, 10*time.Millisecond
	sub, err := nats.NewSubscriber(config)
	require.NoError(t, err)
	router, err := message.NewRouter(message.RouterConfig{CloseTimeout: patience}, watermill.NopLogger{})
	require.NoError(t, err)
	router.AddConsumerHandler("billing", config.Stream, sub, func(msg *message.Message) error {
		_, err := handle(msg)
		return err
	}).AddMiddleware(box.Middleware)
	ended := make(chan error, 1)
	go func() { ended <- router.Run(t.Context()) }()
	<-router.Running()
	return func() {
		require.NoError(t, router.Close())
		require.NoError(t, <-ended)
	}
}

func TestOnce_ShutdownInMidHandler(t *testing.T) {
	t.Parallel()
	for name, grace := range map[string]time.Duration{
		"the handler ends within the grace":        patience,
		"the handler is cancelled after the grace": time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bed := setup(t)
			conn := startNATS(t).connect(t)
			stream := makeOrders(t, conn)
			stream.publishOrder(t, "1")
			box := bed.consumer(bed.db.Pool, func(config *consumer.Config) { config.ShutdownGrace = grace })

			started, goOn := make(chan struct{}), make(chan struct{})
			stop := route(t, conn, box, func(msg *message.Message) ([]*message.Message, error) {
				close(started)
				if _, err := bed.write(msg); err != nil {
					return nil, err
				}
				select {
				case <-goOn:
					return nil, nil
				case <-msg.Context().Done():
					return nil, msg.Context().Err()
				}
			})
			<-started
			if grace == patience {
				time.AfterFunc(50*time.Millisecond, func() { close(goOn) })
			}
			stop()
			require.Empty(t, bed.letters(), "a shutdown dead-letters nothing")
			require.Empty(t, bed.attempts(), "a shutdown is not a failure")

			stop = route(t, conn, box, bed.write)
			stream.settled(t)
			stop()
			bed.onceEach("1")
			require.Empty(t, bed.letters())
		})
	}
}
