package dedup

import (
	"errors"
	"strconv"
	"strings"
)

// maxDigits bounds a number written out: more is an overflow, not an amount.
const maxDigits = 400

var (
	errNotNumber = errors.New("is not a number")
	errOverflow  = errors.New("has more than 400 digits")
)

// parseNumber reads a JSON number exactly as digits × 10^-scale, in the shortest form: a
// number without fraction has scale 0. Digits begin with "-" for a negative number.
func parseNumber(text string) (digits string, scale int, err error) {
	sign, rest := "", text
	if strings.HasPrefix(rest, "-") {
		sign, rest = "-", rest[1:]
	}
	mantissa, exponentText, hasExponent := cutAny(rest, "eE")
	whole, fraction, hasPoint := strings.Cut(mantissa, ".")
	if !onlyDigits(whole) || hasPoint && !onlyDigits(fraction) || len(whole) > 1 && whole[0] == '0' {
		return "", 0, errNotNumber
	}
	exponent := 0
	if hasExponent {
		if !onlyDigits(strings.TrimLeft(exponentText, "+-")) {
			return "", 0, errNotNumber
		}
		if exponent, err = strconv.Atoi(exponentText); err != nil {
			if errors.Is(err, strconv.ErrRange) {
				return "", 0, errOverflow
			}
			return "", 0, errNotNumber
		}
	}
	return shorten(sign, whole+fraction, len(fraction), exponent)
}

func shorten(sign, digits string, fraction, exponent int) (string, int, error) {
	digits = strings.TrimLeft(digits, "0")
	if digits == "" {
		return "0", 0, nil
	}
	if len(digits) > maxDigits || exponent > maxDigits || exponent < -maxDigits {
		return "", 0, errOverflow
	}
	scale := fraction - exponent
	for scale > 0 && strings.HasSuffix(digits, "0") {
		digits, scale = digits[:len(digits)-1], scale-1
	}
	if scale < 0 {
		digits, scale = digits+strings.Repeat("0", -scale), 0
	}
	if len(digits) > maxDigits || scale > maxDigits {
		return "", 0, errOverflow
	}
	return sign + digits, scale, nil
}

// placePoint writes digits × 10^-scale with exactly scale digits behind the point.
func placePoint(digits string, scale int) string {
	digits, negative := strings.CutPrefix(digits, "-")
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	text := digits[:len(digits)-scale] + "." + digits[len(digits)-scale:]
	if negative {
		return "-" + text
	}
	return text
}

func onlyDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func cutAny(s, chars string) (before, after string, found bool) {
	if i := strings.IndexAny(s, chars); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}
