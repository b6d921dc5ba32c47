// What numbers lose as 32-bit floats, which is how records store them.

#ifndef SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_
#define SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_

namespace shardfeed {

// Whether `value` loses more than usual when it becomes a float: either everything, like 1e-50, or,
// if its shortest decimal form has more than the seven digits that a float keeps, a part of its
// integer digits or all of its fraction, like 16777217, 9999999.9 and 1700000001.5, but not 1e20.
// (That some digits of fractions are lost is usual: 31.95376472 becomes 31.953764.)
bool IsLossyAsFloat(double value);

// Whether the float nearest to `value` has the same shortest decimal form, as for 0.1. It does not
// if `value` has more digits than a float keeps, like 31.95376472.
bool KeepsDigitsAsFloat(double value);

}  // namespace shardfeed

#endif  // SHARDFEED_DECODE_FEATURES_FLOAT_DIGITS_H_
