'use strict';

// Matrices are arrays of rows of equal length.
function identity(size) {
  return Array.from({ length: size }, (_, row) => Array.from({ length: size }, (__, column) => (row === column ? 1 : 0)));
}

function transpose(matrix) {
  return matrix[0].map((_, column) => matrix.map((row) => row[column]));
}

function multiply(left, right) {
  if (left[0].length !== right.length) {
    throw new RangeError(`${left[0].length} columns and ${right.length} rows do not fit`);
  }
  return left.map((row) =>
    right[0].map((_, column) => {
      let sum = 0;
      for (let k = 0; k < row.length; k += 1) {
        sum += row[k] * right[k][column];
      }
      return sum;
    }),
  );
}

// A matrix times itself, `exponent` times, by squaring.
function power(matrix, exponent) {
  if (!Number.isInteger(exponent) || exponent < 0) {
    throw new RangeError(`exponent is ${exponent}: a whole number of at least 0`);
  }
  let result = identity(matrix.length);
  let factor = matrix;
  for (let rest = exponent; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) {
      result = multiply(result, factor);
    }
    factor = multiply(factor, factor);
  }
  return result;
}

function determinant(matrix) {
  if (matrix.length === 1) {
    return matrix[0][0];
  }
  let sum = 0;
  for (let column = 0; column < matrix.length; column += 1) {
    const minor = matrix.slice(1).map((row) => row.filter((_, index) => index !== column));
    const sign = column % 2 === 0 ? 1 : -1;
    sum += sign * matrix[0][column] * determinant(minor);
  }
  return sum;
}

function trace(matrix) {
  let sum = 0;
  for (let index = 0; index < matrix.length; index += 1) {
    sum += matrix[index][index];
  }
  return sum;
}

module.exports = { identity, transpose, multiply, power, determinant, trace };
