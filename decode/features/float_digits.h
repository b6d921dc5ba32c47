// What numbers lose as floats of 32 bits, which are those that records have.

#ifndef SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_
#define SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_

namespace shardfeed {

// Whether `value` loses more than is usual when it becomes a float: all of it, as 1e-50 does, or,
// if its shortest decimal form has more than the seven digits that a float keeps, some of its whole
// part: 16777217 and 1700000001.5, but not 1e20. (That digits of fractions are lost is usual:
// 31.95376472 becomes 31.953764.)
bool IsLossyAsFloat(double value);

// Whether the float next to `value` has the same shortest decimal form, as that of 0.1 has. It
// does not if `value` has more digits than a float keeps, as 31.95376472.
bool KeepsDigitsAsFloat(double value);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_
