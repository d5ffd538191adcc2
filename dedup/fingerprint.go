package dedup

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
)

// fp1 is the first version of the encoding that fingerprints digest; see [Schema].
const fp1 = 1

// Fingerprint is a versioned digest of the fields that make an intent. The zero
// Fingerprint is not declared: it takes no part in a comparison. Formatting one shows a
// short digest of it, never itself.
type Fingerprint struct {
	version byte
	sum     [sha256.Size]byte
}

// Declared reports whether the fingerprint was made from fields.
func (f Fingerprint) Declared() bool { return f.version != 0 }

// Equal compares in constant time. Fingerprints of different versions differ.
func (f Fingerprint) Equal(g Fingerprint) bool {
	versions := subtle.ConstantTimeByteEq(f.version, g.version)
	return versions&subtle.ConstantTimeCompare(f.sum[:], g.sum[:]) == 1
}

// Bytes is the form that stores keep: a byte of version and 32 of digest; nil when the
// fingerprint is not declared.
func (f Fingerprint) Bytes() []byte {
	if !f.Declared() {
		return nil
	}
	return append([]byte{f.version}, f.sum[:]...)
}

// FingerprintFrom reads the form that Bytes writes. No bytes give the zero Fingerprint.
func FingerprintFrom(stored []byte) (Fingerprint, error) {
	if len(stored) == 0 {
		return Fingerprint{}, nil
	}
	if len(stored) != 1+sha256.Size {
		return Fingerprint{}, fmt.Errorf("read fingerprint: %d bytes, want %d", len(stored), 1+sha256.Size)
	}
	if stored[0] != fp1 {
		return Fingerprint{}, fmt.Errorf("read fingerprint: version %d is not known to this release", stored[0])
	}
	return Fingerprint{version: stored[0], sum: [sha256.Size]byte(stored[1:])}, nil
}

// String shows a short digest of the fingerprint.
func (f Fingerprint) String() string {
	if !f.Declared() {
		return "fingerprint:none"
	}
	sum := sha256.Sum256(append([]byte("oncebox fingerprint "), f.Bytes()...))
	return "fingerprint:" + hex.EncodeToString(sum[:4])
}

// Format shows the digest whatever the verb.
func (f Fingerprint) Format(s fmt.State, _ rune) { _, _ = s.Write([]byte(f.String())) }

// LogValue shows the digest.
func (f Fingerprint) LogValue() slog.Value { return slog.StringValue(f.String()) }

// MarshalText shows the digest: a fingerprint can't be got back from it.
func (f Fingerprint) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
