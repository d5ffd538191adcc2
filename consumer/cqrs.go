package consumer

import (
	"github.com/ThreeDotsLabs/watermill/components/cqrs"
	"github.com/ThreeDotsLabs/watermill/message"
)

// HandleEvent is an OnHandle for cqrs.EventProcessorConfig: each event handler's effect
// commits with its claim. The processor must have one handler for each consumer.
func (c *Consumer) HandleEvent(params cqrs.EventProcessorOnHandleParams) error {
	return c.handleTyped(params.Message, func(msg *message.Message) error {
		return params.Handler.Handle(msg.Context(), params.Event)
	})
}

// HandleGroupEvent is an OnHandle for cqrs.EventGroupProcessorConfig. All handlers of the
// group share the consumer, so an event that two of them handle takes effect in one only.
func (c *Consumer) HandleGroupEvent(params cqrs.EventGroupProcessorOnHandleParams) error {
	return c.handleTyped(params.Message, func(msg *message.Message) error {
		return params.Handler.Handle(msg.Context(), params.Event)
	})
}

// HandleCommand is an OnHandle for cqrs.CommandProcessorConfig.
func (c *Consumer) HandleCommand(params cqrs.CommandProcessorOnHandleParams) error {
	return c.handleTyped(params.Message, func(msg *message.Message) error {
		return params.Handler.Handle(msg.Context(), params.Command)
	})
}

func (c *Consumer) handleTyped(msg *message.Message, handle func(*message.Message) error) error {
	_, err := c.handleMessage(msg, watch(func(msg *message.Message) ([]*message.Message, error) {
		return nil, handle(msg)
	}))
	return err
}
