package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// names are what the columns are called in the table.
var names = map[string]string{
	columnPlain: "plain handler", columnDeduplicator: "Watermill Deduplicator", columnOncebox: "oncebox",
}

// report prints the books, and a line for each column that scripts can rely on.
func report(out io.Writer, all []books, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(all)
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	row := func(name string, cell func(books) any) {
		fmt.Fprint(table, name, "\t")
		for _, b := range all {
			fmt.Fprint(table, cell(b), "\t")
		}
		fmt.Fprintln(table)
	}
	fmt.Fprintln(table)
	row("", func(b books) any { return names[b.Consumer] })
	row("messages", func(b books) any { return b.Messages })
	row("deliveries", func(b books) any { return b.Deliveries })
	row("workers killed", func(b books) any { return b.Kills })
	row("duplicates blocked", func(b books) any { return b.Blocked })
	row("effects", func(b books) any { return b.Effects })
	row("lost", func(b books) any { return b.Lost })
	row("doubled", func(b books) any { return b.Doubled })
	row("money off by", func(b books) any { return fmt.Sprintf("%.2f", float64(b.Cents-b.DueCents)/100) })
	row("relays killed", func(b books) any { return b.RelaysKilled })
	row("events published", func(b books) any { return b.Published.Events })
	row("events lost", func(b books) any { return b.Published.Lost })
	row("events doubled", func(b books) any { return b.Published.Doubled })
	row("events reordered", func(b books) any { return b.Published.Reordered })
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, b := range all {
		fmt.Fprintf(out, "RESULT consumer=%s messages=%d deliveries=%d effects=%d lost=%d doubled=%d\n",
			b.Consumer, b.Messages, b.Deliveries, b.Effects, b.Lost, b.Doubled)
		fmt.Fprintf(out, "PUBLISHED consumer=%s events=%d lost=%d doubled=%d reordered=%d\n",
			b.Consumer, b.Published.Events, b.Published.Lost, b.Published.Doubled, b.Published.Reordered)
	}
	return nil
}
