package dedup

import (
	"encoding/binary"
	"hash"
)

// writePart adds parts to a digest, each after its length, so that no two lists of parts
// are digested alike.
func writePart(sum hash.Hash, parts ...string) {
	for _, part := range parts {
		sum.Write(appendPart(nil, part))
	}
}

func appendPart(into []byte, part string) []byte {
	return append(appendCount(into, len(part)), part...)
}

func appendCount(into []byte, count int) []byte {
	return binary.BigEndian.AppendUint64(into, uint64(count))
}
