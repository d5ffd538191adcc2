package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// reportLatencies prints the interleaved latencies of one number of connections.
func reportLatencies(out io.Writer, v []variant, size int, latencies [][]time.Duration) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "\n%d connections\tmessages\tmean\tp50\tp99\tratio\t\n", size)
	reference := mean(latencies[bare])
	for i, all := range latencies {
		average := mean(all)
		if average == 0 {
			return fmt.Errorf("no message of %q was measured; lengthen -duration", v[i].name)
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%.3f\t\n", v[i].name, len(all), round(average),
			round(quantile(all, 0.50)), round(quantile(all, 0.99)), float64(reference)/float64(average))
	}
	return table.Flush()
}

func round(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
