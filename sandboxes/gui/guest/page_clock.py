"""A clock for pages that read the time: it advances only by `pageClock.advance`, whatever the speed of the host."""

from __future__ import annotations

PAGE_CLOCK = """(() => {
  const real = {
    Date, performance: performance.now.bind(performance), timeout: setTimeout.bind(window),
    interval: setInterval.bind(window), frame: requestAnimationFrame.bind(window),
    clear: clearTimeout.bind(window), cancel: cancelAnimationFrame.bind(window),
  };
  const timers = new Map();  // by id: {run, at, every}
  let now = 0, begun = 0, stopped = false, last = 1e9;
  const add = (run, delay, every) => {
    delay = Math.max(+delay || 0, 1);
    timers.set(++last, {run, at: now + delay, every: every && delay});
    return last;
  };
  const elapsed = () => stopped ? begun + now : real.performance();
  window.Date = new Proxy(real.Date, {
    construct: (kind, given) => given.length || !stopped ? new kind(...given) : new kind(now),
    get: (kind, name) => name === 'now' ? () => stopped ? now : kind.now() : kind[name],
  });
  performance.now = elapsed;
  window.setTimeout = (run, delay, ...given) =>
    stopped ? add(() => run(...given), delay, false) : real.timeout(run, delay, ...given);
  window.setInterval = (run, delay, ...given) =>
    stopped ? add(() => run(...given), delay, true) : real.interval(run, delay, ...given);
  window.requestAnimationFrame = run => stopped ? add(() => run(elapsed()), 16, false) : real.frame(run);
  window.clearTimeout = window.clearInterval = id => void (timers.delete(id) || real.clear(id));
  window.cancelAnimationFrame = id => void (timers.delete(id) || real.cancel(id));
  window.pageClock = Object.freeze({
    stop() {
      now = real.Date.now();
      begun = real.performance() - now;
      stopped = true;
    },
    advance(duration) {
      const until = now + duration;
      for (;;) {
        const [id, timer] = [...timers].reduce((a, b) => b[1].at < a[1].at ? b : a, [0, {at: Infinity}]);
        if (timer.at > until) break;
        now = Math.max(now, timer.at);
        if (timer.every) timer.at = now + timer.every; else timers.delete(id);
        try { timer.run(); } catch (error) { console.error(error); }
      }
      now = until;
    },
  });
})()"""
"""Installs the clock before any script of the page runs. The clock goes as usual until `pageClock.stop()`; then timers,
animation frames and dates follow `pageClock.advance(milliseconds)` alone. Animations of style sheets do not follow it.
"""
