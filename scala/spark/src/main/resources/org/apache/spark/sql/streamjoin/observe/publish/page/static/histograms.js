// Charts of distributions: how late rows are, how far apart matches are, and how rows are spread over tasks.
StreamJoin.histograms = (() => {
  "use strict";
  const { escape, isNumber, number, list, most, round, element, textAt, svg, apart, labelsAt } = StreamJoin.draw;
  const { sum, widthOf, duration, short, lengths, grouped, count } = StreamJoin.draw;
  const { inputsOf } = StreamJoin.holds;

  const Height = 210,
    Top = 44,
    Bottom = 36;

  /** Histograms of several batches added up: `{fromMs, toMs, count}`, the lowest first. */
  const added = (histograms, counted) => {
    const found = new Map();
    for (const histogram of histograms)
      for (const bucket of list(histogram.buckets)) {
        const key = `${bucket.fromMs} ${bucket.toMs}`;
        const one = found.get(key) ?? { fromMs: number(bucket.fromMs), toMs: number(bucket.toMs), count: 0 };
        one.count += number(bucket[counted]);
        found.set(key, one);
      }
    return [...found.values()].filter((one) => one.count > 0).sort((one, other) => one.fromMs - other.fromMs);
  };

  const collected = (batches, name, found) => {
    const all = new Map();
    for (const batch of batches)
      for (const [key, histogram] of found(batch)) all.set(key, [...(all.get(key) ?? []), histogram]);
    return [...all.entries()].map(([key, histograms]) => ({
      of: key,
      buckets: added(histograms, name),
      last: histograms[histograms.length - 1],
    }));
  };

  /** How far the rows of each input are behind, over all batches. */
  const lateness = (batches) =>
    collected(batches, "rows", (batch) =>
      inputsOf(batch)
        .filter(({ input }) => input.lateness)
        .map(({ operator, input }) => [`${operator.operator} ${operator.title}, ${input.name}`, input.lateness]),
    ).filter((one) => one.buckets.length > 0);

  /** How far apart the matches of each operator are, over all batches. */
  const distances = (batches) =>
    collected(batches, "pairs", (batch) =>
      list(batch.operators)
        .filter((one) => one.distances)
        .map((one) => [`${one.operator} ${one.title}`, one.distances]),
    ).filter((one) => one.buckets.length > 0);

  /**
   * The smallest delay with which the given share of the rows is on time; a bucket that contains the delay counts in
   * full.
   */
  const delayFor = (buckets, share) => {
    const needed = share * sum(buckets.map((one) => one.count));
    let seen = 0;
    for (const bucket of buckets) {
      seen += bucket.count;
      if (seen >= needed - 1e-9) return Math.max(bucket.toMs - 1, 0);
    }
    return 0;
  };
  const lostWith = (buckets, delay) => sum(buckets.filter((one) => one.toMs - 1 > delay).map((one) => one.count));

  const shareOf = (part, whole) => {
    const share = (part / whole) * 100;
    if (part === 0) return "none";
    return share < 0.01
      ? "under 0.01 %"
      : `${share >= 10 && share < 99 ? Math.round(share) : Math.floor(share * 100) / 100} %`;
  };

  /** The number of late rows for several delays: the current one, and those that would keep more rows. */
  const delays = ({ buckets, last }) => {
    const whole = sum(buckets.map((one) => one.count));
    const shares = [0.9, 0.99, 0.999, 1].map((share) => delayFor(buckets, share));
    const tried = [...new Set([0, ...shares, ...(isNumber(last.delayMs) ? [last.delayMs] : [])])].sort(
      (a, b) => a - b,
    );
    const rows = tried.map((delay) => {
      const lost = lostWith(buckets, delay);
      const now = delay === last.delayMs;
      return (
        `<tr${now ? ' class="sj-now"' : ""}><td>${escape(delay === 0 ? "no delay" : duration(delay))}` +
        `${now ? " (current)" : ""}</td><td>${grouped(lost)}</td><td>${escape(shareOf(lost, whole))}</td></tr>`
      );
    });
    return (
      `<table class="sj-delays"><tr><th>delay of the watermark</th><th>late, at most</th><th>of ${grouped(whole)}` +
      " rows" +
      `</th></tr>${rows.join("")}</table>`
    );
  };

  /** Bounds as lines with labels above the chart, in as many rows as necessary to avoid overlaps. */
  const bounds = (limits, x, width) => {
    const rows = [];
    return limits
      .map(({ at, words }) => {
        const half = widthOf(words, 12) / 2 + 6;
        const line = x(at);
        const middle = Math.min(Math.max(line, half + 2), width - half - 2);
        let row = rows.findIndex((taken) => taken.every(([from, to]) => middle + half < from || middle - half > to));
        if (row < 0) {
          row = rows.length;
          rows.push([]);
        }
        rows[row].push([middle - half, middle + half]);
        const y = 14 + row * 15;
        return (
          element("line", { class: "sj-bound", x1: line, x2: line, y1: y + 4, y2: Height - Bottom, "data-ms": at }) +
          textAt(middle, y, words, { class: "sj-of-limit sj-label", "text-anchor": "middle" })
        );
      })
      .join("");
  };

  /** The length that nearly all spans in the buckets exceed. */
  const smallestOf = (buckets) => {
    const bySize = buckets
      .map((one) => ({ size: Math.abs(one.fromMs + one.toMs) / 2, count: one.count }))
      .filter(({ size }) => size > 1)
      .sort((one, other) => one.size - other.size);
    const needed = sum(bySize.map((one) => one.count)) / 100;
    let seen = 0;
    return bySize.find((one) => {
      seen += one.count;
      return seen >= needed;
    })?.size;
  };

  /**
   * Buckets as an SVG of the given width. Values near 0 have their own column: in a chart of lateness, it contains most
   * of the rows, so it is cut and the other columns have their own scale.
   */
  const picture = ({ buckets, limits, cutsZero, unit }, width, of) => {
    const isZero = (one) => one.fromMs <= 0 && one.toMs >= 0 && one.toMs <= 1;
    const zero = cutsZero ? buckets.find(isZero) : undefined;
    const others = buckets.filter((one) => one !== zero);
    const ends = [...others.flatMap((one) => [one.fromMs, one.toMs]), ...limits.map(({ at }) => at)].filter(isNumber);
    const most0 = most(ends, 1),
      least0 = Math.min(0, ...ends);
    const largest = Math.max(most0, -least0);
    const axis = lengths(largest * 1.02, smallestOf(others));
    const left = zero ? 96 : 16,
      right = width - 16,
      bottom = Height - Bottom;
    const parts = (least0 < 0 ? axis.at(-least0) : 0) + (most0 > 0 ? axis.at(most0) : 0);
    const zeroAt = left + (least0 < 0 ? axis.at(-least0) / parts : 0) * (right - left);
    const x = (millis) => round(zeroAt + Math.sign(millis) * (axis.at(Math.abs(millis)) / parts) * (right - left));
    const top = most(
      others.map((one) => one.count),
      1,
    );
    const high = (value) => (value / top) * (bottom - Top);
    let body = "";
    if (zero) {
      const whole = sum(buckets.map((one) => one.count));
      const cut = zero.count > top;
      const height = Math.max(Math.min(high(zero.count), bottom - Top), 2);
      body += element("rect", {
        class: "sj-column sj-zero",
        x: 16,
        y: bottom - height,
        width: 48,
        height,
        "data-count": zero.count,
      });
      if (cut) body += element("path", { class: "sj-cut", d: `M 12 ${Top + 20} l 56 -10` });
      body += textAt(40, bottom - height - 6, shareOf(zero.count, whole), {
        "text-anchor": "middle",
        class: "sj-label",
      });
      body += textAt(40, bottom + 16, "not behind", { "text-anchor": "middle", class: "sj-small sj-label" });
    }
    for (const one of others) {
      const from = x(one.fromMs),
        size = Math.max(x(one.toMs) - from - 0.5, 2),
        height = Math.max(high(one.count), 1.5);
      body += element(
        "rect",
        { class: "sj-column", x: from, y: bottom - height, width: size, height, "data-count": one.count },
        element(
          "title",
          {},
          escape(`${short(Math.abs(one.fromMs))} to ${short(Math.abs(one.toMs))}: ${count(one.count, unit)}`),
        ),
      );
    }
    const room = Math.max(Math.floor((right - left) / 90), 2);
    const signed = (millis) => `${millis < 0 ? "−" : ""}${short(millis)}`;
    const ticks = axis
      .ticks(room)
      .flatMap((each) => (least0 < 0 && each > 0 ? [each, -each] : [each]))
      .filter((each) => each <= most0 * 1.001 && each >= least0 * 1.001);
    const labels = apart(
      ticks
        .map((each) => ({ x: x(each), words: signed(each) }))
        .filter(
          ({ x: middle, words }) =>
            middle + widthOf(words, 11) / 2 < width && (!zero || middle - widthOf(words, 11) / 2 > 74),
        ),
    );
    const grid = labels.map(({ x: middle }) =>
      element("line", { class: "sj-tick", x1: middle, x2: middle, y1: Top, y2: bottom }),
    );
    const line = element("line", { class: "sj-axis", x1: zero ? left : 16, x2: right, y1: bottom, y2: bottom });
    return svg(
      width,
      Height,
      { class: "sj-picture sj-histogram", "data-of": of, "data-axis": axis.grows ? "grows" : "even" },
      element("title", {}, escape(of)) +
        grid.join("") +
        body +
        line +
        labelsAt(labels, bottom + 16) +
        bounds(limits, x, width),
    );
  };

  const isBehind = (one) => one.buckets.some((bucket) => bucket.toMs > 1);
  /** The inputs without rows behind, as a sentence. */
  const notBehind = (batches) => {
    const names = lateness(batches)
      .filter((one) => !isBehind(one))
      .map((one) => one.of);
    return names.length === 0 ? "" : ` No row was behind: ${names.join("; ")}.`;
  };
  const lateCharts = (batches) =>
    lateness(batches)
      .filter(isBehind)
      .map((one) => {
        const limits = isNumber(one.last.delayMs)
          ? [{ at: one.last.delayMs, words: `delay ${short(one.last.delayMs)}` }]
          : [];
        return {
          id: "lateness",
          of: one.of,
          draw: (width) => picture({ buckets: one.buckets, limits, cutsZero: true, unit: "row" }, width, one.of),
          more: delays(one),
        };
      });

  const distanceCharts = (batches) =>
    distances(batches).map((one) => {
      const limits = [
        ["from", "lowestMs"],
        ["to", "highestMs"],
      ]
        .filter(([, field]) => isNumber(one.last[field]))
        .map(([which, field]) => ({
          at: one.last[field],
          words: `${which} ${one.last[field] < 0 ? "−" : ""}${short(one.last[field])}`,
        }));
      const whole = sum(one.buckets.map((bucket) => bucket.count));
      const within = delayFor(one.buckets, 0.999);
      return {
        id: "distances",
        of: `${one.of}: ${one.last.of}`,
        draw: (width) => picture({ buckets: one.buckets, limits, cutsZero: false, unit: "match" }, width, one.of),
        more:
          `<p class="sj-note">99.9 % of ${grouped(whole)} matches are at most ${escape(duration(within))} apart` +
          `${isNumber(one.last.highestMs) ? `; the bound allows ${escape(duration(one.last.highestMs))}` : ""}.</p>`,
      };
    });

  /** The tasks of an operator next to each other. If they do not fit, a column shows the maximum of several tasks. */
  const tasks = (values, width, say, name) => {
    const height = 96,
      bottom = height - 6,
      left = 8,
      right = Math.min(width - 8, 8 + values.length * 56);
    const each = Math.ceil(values.length / Math.max(Math.floor((right - left) / 3), 1));
    const shown = Array.from({ length: Math.ceil(values.length / each) }, (_, at) =>
      most(values.slice(at * each, (at + 1) * each).map(number), 0),
    );
    const top = most(shown, 1),
      step = (right - left) / shown.length;
    const columns = shown.map((value, at) => {
      const size = Math.max((value / top) * (bottom - 22), value > 0 ? 1.5 : 0);
      return element(
        "rect",
        {
          class: "sj-column",
          x: round(left + at * step),
          y: round(bottom - size),
          width: round(Math.max(step - Math.min(step * 0.2, 2), 1)),
          height: round(size),
        },
        element("title", {}, escape(`task ${at * each}: ${say(value)}`)),
      );
    });
    const mean = sum(values) / values.length;
    const level = round(bottom - (mean / top) * (bottom - 22));
    const words = `${name}: at most ${say(most(values, 0))}, on average ${say(mean)}`;
    return svg(
      width,
      height,
      { class: "sj-picture sj-tasks" },
      columns.join("") +
        element("line", { class: "sj-mean", x1: left, x2: right, y1: level, y2: level }) +
        element("line", { class: "sj-axis", x1: left, x2: right, y1: bottom, y2: bottom }) +
        textAt(left, 12, words, { class: "sj-label" }),
    );
  };

  const skew = (figures) =>
    list(figures?.operators)
      .filter((one) => list(one.tasks?.rows).length > 1 && sum(one.tasks.rows) > 0)
      .map((one) => ({
        id: "skew",
        of: `${one.operator} ${one.title}: ${count(one.tasks.rows.length, "task")}, by partition`,
        draw: (width) =>
          tasks(one.tasks.rows, width, (rows) => count(Math.round(rows), "row"), "rows in state") +
          tasks(list(one.tasks.ms), width, (millis) => `${grouped(millis)} ms`, "time"),
        more: "",
      }));

  return { lateCharts, notBehind, distanceCharts, skew, lateness, distances, delayFor, lostWith, picture };
})();
