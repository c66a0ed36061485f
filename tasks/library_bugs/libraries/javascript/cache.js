'use strict';

// Values by key for a time. When there are more than `size`, the one that was used least lately goes.
class Cache {
  constructor(size, lifetime, clock) {
    this.size = size;
    this.lifetime = lifetime;
    this.clock = clock;
    this.entries = new Map();
    this.hits = 0;
    this.misses = 0;
  }

  set(key, value) {
    this.entries.delete(key);
    this.entries.set(key, { value, until: this.clock() + this.lifetime });
    if (this.entries.size > this.size) {
      this.sweep();
    }
    if (this.entries.size > this.size) {
      const oldest = this.entries.keys().next().value;
      this.entries.delete(oldest);
    }
  }

  get(key) {
    const entry = this.entries.get(key);
    if (entry === undefined || entry.until <= this.clock()) {
      this.misses += 1;
      return undefined;
    }
    this.hits += 1;
    this.entries.delete(key);
    this.entries.set(key, entry);
    return entry.value;
  }

  // Takes away what is too old. Returns how many that were.
  sweep() {
    const now = this.clock();
    let removed = 0;
    for (const [key, entry] of [...this.entries]) {
      if (entry.until <= now) {
        this.entries.delete(key);
        removed += 1;
      }
    }
    return removed;
  }

  // The share of questions that were answered, 0 before the first.
  rate() {
    const asked = this.hits + this.misses;
    return asked === 0 ? 0 : this.hits / asked;
  }

  keys() {
    this.sweep();
    return [...this.entries.keys()];
  }
}

module.exports = { Cache };
