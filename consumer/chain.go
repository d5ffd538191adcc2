package consumer

import (
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/oncebox/oncebox/dedup"
)

// ChainConfig names what goes around oncebox. Everything is optional.
type ChainConfig struct {
	// Outer comes first, as metrics do. It must not retry or hide errors of its own.
	Outer []message.HandlerMiddleware
	// PoisonQueue is a middleware of Watermill that publishes what fails. Dead letters
	// already keep such messages, so it is seldom needed; give it a filter that lets
	// context.Canceled pass, or a shutdown sends healthy messages there.
	PoisonQueue message.HandlerMiddleware
	// Retry runs a failed message again in the process. Each run has a transaction of its
	// own and counts as an attempt. ResetContextOnRetry is switched on. What asked for a
	// delay by dedup.RetryAfter is not retried here but goes back to the broker.
	Retry *middleware.Retry
	// CorrelationID carries the correlation id to produced messages.
	CorrelationID bool
	// Timeout bounds the handler's context, below the consumer's HandlerTimeout.
	Timeout time.Duration
}

// Chain returns the middleware of a handler in the only order that is safe, outermost
// first:
//
//	outer → poison queue → retry → oncebox → correlation id → timeout → recoverer → handler
//
// Add it to the handler, not to the router: handler.AddMiddleware(chain...). Wrong orders
// are refused before COMMIT; with Chain also a retry inside.
func Chain(c *Consumer, config ChainConfig) ([]message.HandlerMiddleware, error) {
	if c == nil {
		return nil, errors.New("chain: consumer: missing")
	}
	if config.Timeout < 0 || config.Timeout > c.config.HandlerTimeout {
		return nil, fmt.Errorf("chain: Timeout: %v is not between 0 and HandlerTimeout %v", config.Timeout, c.config.HandlerTimeout)
	}
	chain := append([]message.HandlerMiddleware(nil), config.Outer...)
	if config.PoisonQueue != nil {
		chain = append(chain, config.PoisonQueue)
	}
	if config.Retry != nil {
		retry := *config.Retry
		retry.ResetContextOnRetry = true
		asked := retry.ShouldRetry
		retry.ShouldRetry = func(params middleware.RetryParams) bool {
			return dedup.DelayOf(params.Err) == 0 && (asked == nil || asked(params))
		}
		chain = append(chain, retry.Middleware)
	}
	chain = append(chain, c.Middleware)
	if config.CorrelationID {
		chain = append(chain, middleware.CorrelationID)
	}
	if config.Timeout > 0 {
		chain = append(chain, middleware.Timeout(config.Timeout))
	}
	return append(chain, middleware.Recoverer, watch), nil
}
