'use strict';

// A buffer of a fixed size. Once it is full, a new item takes the place of the oldest.
class Ring {
  constructor(size) {
    if (!Number.isInteger(size) || size < 1) {
      throw new RangeError(`size is ${size}: a whole number of at least 1`);
    }
    this.size = size;
    this.items = [];
    this.start = 0;
    this.dropped = 0;
  }

  push(item) {
    if (this.items.length < this.size) {
      this.items.push(item);
      return this.items.length;
    }
    this.items[this.start] = item;
    this.start = (this.start + 1) % this.size;
    this.dropped += 1;
    return this.size;
  }

  // The item at a place, 0 the oldest; negative places count from the newest.
  at(index) {
    const length = this.items.length;
    const place = index < 0 ? length + index : index;
    if (place < 0 || place >= length) {
      return undefined;
    }
    return this.items[(this.start + place) % length];
  }

  toArray() {
    const result = [];
    for (let place = 0; place < this.items.length; place += 1) {
      result.push(this.at(place));
    }
    return result;
  }

  // The mean of the newest items, of all if no count is given.
  mean(count = this.items.length) {
    const chosen = this.toArray().slice(-count);
    if (chosen.length === 0 || count === 0) {
      return NaN;
    }
    return chosen.reduce((sum, value) => sum + value, 0) / chosen.length;
  }

  clear() {
    this.items = [];
    this.start = 0;
  }
}

module.exports = { Ring };
