// Exceptions: one family, so that `catch (const tenon::Error&)` catches everything that tenon throws on purpose.
//
// Every message is one sentence that names what is wrong: the operator and argument with both shapes, the file, the
// tensor, or the configuration field. tenon never prints and never aborts.
#pragma once

#include <stdexcept>
#include <string>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

/// Base of all exceptions thrown by tenon.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Shapes, strides or ranks that do not fit together.
class ShapeError : public Error {
 public:
  using Error::Error;
};

/// A dtype that an operation does not take, or that is not the one asked for.
class DTypeError : public Error {
 public:
  using Error::Error;
};

/// A device that is absent, or a tensor on the wrong one.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// An index or token id out of range.
class IndexError : public Error {
 public:
  using Error::Error;
};

/// A scalar argument or option outside its allowed values.
class ValueError : public Error {
 public:
  using Error::Error;
};

/// A file or folder that is missing, unreadable, or cannot be written.
class FileError : public Error {
 public:
  using Error::Error;
};

/// A file whose content is not what its format, or the model's configuration, demands.
class FormatError : public Error {
 public:
  using Error::Error;
};

/// Numbers that cannot be used, for example logits that are not finite.
class NumericError : public Error {
 public:
  using Error::Error;
};

TENON_NAMESPACE_END
