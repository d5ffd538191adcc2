package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncebox/oncebox/dedup"
)

func keysCommand() *cobra.Command {
	keys := &cobra.Command{Use: "keys", Short: "Work with idempotency keys"}
	keys.AddCommand(idCommand())
	return keys
}

func idCommand() *cobra.Command {
	var consumer, scope, at string
	var shadow bool
	id := &cobra.Command{
		Use:   "id",
		Short: "Compute the claim id of a key, which logs and tables show",
		Long: "Compute the claim id of a key, which logs and tables show.\n\n" +
			"The key is read from standard input, one line, so that it is in no shell history:\n" +
			"  printf 'order-1' | oncebox keys id --consumer billing",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			key, err := readKey(command.InOrStdin(), scope, at)
			if err != nil {
				return err
			}
			name := dedup.NewClaimID
			if shadow {
				name = dedup.NewShadowClaimID
			}
			claim, err := name(consumer, key)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(command.OutOrStdout(), claim)
			return err
		},
	}
	id.Flags().StringVar(&consumer, "consumer", "", "name of the consumer (required)")
	id.Flags().StringVar(&scope, "scope", dedup.Global, "scope of the key")
	id.Flags().StringVar(&at, "at", "", "stable time of the key, as in 2026-01-02T15:04:05.678Z")
	id.Flags().BoolVar(&shadow, "shadow", false, "the id in observe mode")
	return id
}

func readKey(in io.Reader, scope, at string) (dedup.Key, error) {
	line, err := bufio.NewReader(io.LimitReader(in, dedup.MaxLongIDBytes+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return dedup.Key{}, fmt.Errorf("read key: %w", err)
	}
	key := dedup.Key{Scope: scope, ID: strings.TrimRight(line, "\r\n")}
	if key.ID == "" {
		return dedup.Key{}, errors.New("no key on standard input; use: printf 'order-1' | oncebox keys id --consumer billing")
	}
	if at != "" {
		if key.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
			return dedup.Key{}, errors.New("--at: not a time as in 2026-01-02T15:04:05.678Z")
		}
	}
	return key, nil
}
