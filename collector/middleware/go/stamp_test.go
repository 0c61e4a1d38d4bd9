package sojourn

import (
	"math/big"
	"regexp"
	"strings"
	"testing"
)

var (
	stampForm = regexp.MustCompile(`^(?:t=)?([0-9]+)(?:\.([0-9]+))?$`)
	// By the number of digits: the most digits of the fraction, and the power of ten of the unit in microseconds.
	stampUnits = map[int][2]int{10: {9, 6}, 13: {6, 3}, 16: {0, 0}, 19: {0, -3}}
)

// reference reads a stamp with a regular expression and exact fractions.
func reference(value string) (int64, Reason) {
	value = strings.Trim(value, " \t")
	switch match := stampForm.FindStringSubmatch(value); {
	case value == "":
		return 0, ReasonMissing
	case strings.Contains(value, ","):
		return 0, ReasonList
	case match == nil:
		return 0, ReasonNotANumber
	default:
		unit, ok := stampUnits[len(match[1])]
		if !ok || match[1][0] == '0' || len(match[2]) > unit[0] {
			return 0, ReasonUnit
		}
		number, _ := new(big.Rat).SetString(match[1] + "." + match[2] + "0")
		power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(unit[1], -unit[1]))), nil)
		if unit[1] < 0 {
			number.Quo(number, new(big.Rat).SetInt(power))
		} else {
			number.Mul(number, new(big.Rat).SetInt(power))
		}
		return new(big.Int).Quo(number.Num(), number.Denom()).Int64(), ""
	}
}

// FuzzStamp compares the parser with the reference: go test -fuzz FuzzStamp.
func FuzzStamp(f *testing.F) {
	for _, value := range []string{
		"", " \t", "t=", "t=1767225599.877", "1767225599877", "1767225599877.123999", "t=1767225599877123",
		"1767225599877123999", "9999999999999999999", "1767225599877123.5", "0767225599.877", "1767225599.8771239991",
		"1,2", "t=t=1767225599", "17672255998", "-1767225599", "1.767225599877e9", "１７６７２２５５９９", "1767225599\n",
		"\x00", "1767225599.", ".877", "1_767_225_599",
	} {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) {
		us, reason := parseStamp(value)
		wantUS, wantReason := reference(value)
		if us != wantUS || reason != wantReason {
			t.Errorf("parseStamp(%q) = %d, %q, want %d, %q", value, us, reason, wantUS, wantReason)
		}
	})
}
