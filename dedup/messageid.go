package dedup

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// messageDomain keeps the ids of messages apart from everything else that is digested here.
const messageDomain = "oncebox message 1"

// NewMessageID is the id of the n-th message, from 0, that the run under a claim sends: the
// same on every run of the intent. It has the form of a UUID of version 8.
func NewMessageID(claim ClaimID, n int) string {
	return digestID(string(claim[:]), string(binary.BigEndian.AppendUint64(nil, uint64(n))))
}

// CopyMessageID is the id of a message that goes to a second topic: streams drop what comes
// twice under one id. It has the form of a UUID of version 8.
func CopyMessageID(id, topic string) string { return digestID("copy", id, topic) }

// RandomMessageID is an id for a message that no claim stands behind, a UUID of version 4.
func RandomMessageID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return formatUUID(id, 4)
}

func digestID(parts ...string) string {
	sum := sha256.New()
	writePart(sum, messageDomain)
	writePart(sum, parts...)
	return formatUUID([16]byte(sum.Sum(nil)[:16]), 8)
}

// formatUUID sets version and variant as RFC 9562 has them.
func formatUUID(id [16]byte, version byte) string {
	id[6] = id[6]&0x0f | version<<4
	id[8] = id[8]&0x3f | 0x80
	return ClaimID(id).String()
}
