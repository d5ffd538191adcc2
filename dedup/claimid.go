package dedup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ClaimID identifies a claim everywhere: in tables, logs, errors and on the command line.
// It is computed from consumer, scope and key, and reveals none of them.
type ClaimID [16]byte

// The domains keep claims of observe mode apart from real ones.
const (
	claimDomain  = "oncebox claim 1"
	shadowDomain = "oncebox shadow claim 1"
)

// NewClaimID computes the id of the consumer's claim on key. Errors are [*KeyError]. A key
// with a stable time gives an id that begins with it, so that claims lie in time order.
func NewClaimID(consumer string, key Key) (ClaimID, error) {
	return newClaimID(claimDomain, consumer, key)
}

// NewShadowClaimID computes the id of a claim that only observes. It never equals a real
// claim's id.
func NewShadowClaimID(consumer string, key Key) (ClaimID, error) {
	return newClaimID(shadowDomain, consumer, key)
}

func newClaimID(domain, consumer string, key Key) (ClaimID, error) {
	if err := checkName("Consumer", consumer, MaxScopeBytes); err != nil {
		return ClaimID{}, err
	}
	key, err := key.Canonical()
	if err != nil {
		return ClaimID{}, err
	}
	sum := sha256.New()
	writePart(sum, domain, consumer, key.Scope, key.ID)
	digest := sum.Sum(nil)
	if key.At.IsZero() {
		return ClaimID(digest[:16]), nil
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(key.At.UnixMilli()))
	var id ClaimID
	copy(id[:6], ms[2:])
	copy(id[6:], digest[:10])
	return id, nil
}

// IsZero reports whether id is unset.
func (id ClaimID) IsZero() bool { return id == ClaimID{} }

// String is the id in the form of a UUID.
func (id ClaimID) String() string {
	text := hex.EncodeToString(id[:])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// MarshalText is the form of String.
func (id ClaimID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// LockKey is a number for an advisory lock on the claim, inside a namespace: such locks are
// shared by all that use one database. Two claims may have the same; that makes one of
// them wait for the other, and nothing else.
func (id ClaimID) LockKey(namespace string) int64 {
	// The id's own head may be a time, which is the same for many claims.
	sum := sha256.New()
	writePart(sum, "oncebox lock 1", namespace, string(id[:]))
	return int64(binary.BigEndian.Uint64(sum.Sum(nil)))
}

// ParseClaimID reads the form that String writes.
func ParseClaimID(text string) (ClaimID, error) {
	if len(text) != 36 || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return ClaimID{}, errors.New("parse claim id: not in the form of a UUID")
	}
	bytes, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(bytes) != 16 {
		return ClaimID{}, fmt.Errorf("parse claim id: not 32 hexadecimal digits in the form of a UUID")
	}
	return ClaimID(bytes), nil
}
