package dedup

// Fingerprint is a versioned digest.
type Fingerprint struct {
	version byte
	sum     [32]byte
}

// Declared reports whether the fingerprint was made from fields.
func (f Fingerprint) Declared() bool { return f.version != 0 }

// Equal compares in constant time.
func (f Fingerprint) Equal(g Fingerprint) bool { return f == g }

func checkName(field, s string, max int) error { return nil }
