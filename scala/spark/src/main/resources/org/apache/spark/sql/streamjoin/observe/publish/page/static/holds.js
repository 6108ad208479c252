// The chart of one batch: what holds the output back.
StreamJoin.holds = (() => {
  "use strict";
  const { escape, isNumber, number, list, most, round, element, textAt, svg, apart, labelsAt } = StreamJoin.draw;
  const { fitted, wrapped, count, bytes, duration, short, instant, clock, lengths } = StreamJoin.draw;

  /** All inputs of a batch with their operators. */
  const inputsOf = (figures) =>
    list(figures?.operators).flatMap((operator) => list(operator.inputs).map((input) => ({ operator, input })));

  /** The column with a given name, and its input. */
  const columnOf = (operator, name) => {
    for (const input of list(operator.inputs))
      for (const column of list(input.columns)) if (column.name === name) return { ...column, input };
    return undefined;
  };

  /**
   * The label of an input. The name of an input from a chain of joins contains the names of all streams, which is too
   * long to read.
   */
  const labelOf = (input) => {
    const below = list(input.below);
    return below.length > 0 && String(input.name).length > 28 ? `result of ${below[0]}` : String(input.name);
  };

  /** Whether a column comes from a source, not from another operator. */
  const isSource = (input, column) => !column.heldBy || column.heldBy === input.name;

  /** Each event-time column of the sources, once, with its input. */
  const sources = (figures) => {
    const found = new Map();
    for (const { operator, input } of inputsOf(figures))
      for (const column of list(input.columns))
        if (isSource(input, column) && !list(input.below).length)
          found.set(`${input.name} ${column.name}`, { operator, input, column });
    return [...found.values()];
  };

  /** The newest time of a row or a watermark in a batch. */
  const newest = (figures) =>
    most(
      inputsOf(figures)
        .flatMap(({ input }) => [
          ...list(input.columns).flatMap((column) => [column.watermark, column.newest]),
          input.oldest,
        ])
        .filter(isNumber),
    );

  /** The eviction limit: older rows leave. A limit of one microsecond ("not before") is rounded to zero here. */
  const limitOf = (operator, input) => {
    const leaves = list(input.leaves);
    const one = leaves.find((each) => each.column === input.leavesBy) ?? leaves[0];
    if (one === undefined) return undefined;
    const postponeMs = one.postponeMs === -1 ? 0 : number(one.postponeMs);
    const column = columnOf(operator, one.column);
    return {
      ...one,
      postponeMs,
      of: column,
      at: isNumber(column?.watermark) ? column.watermark - postponeMs : undefined,
    };
  };

  /** How far the oldest row of an input is from leaving, as text. */
  const toGo = (operator, input) => {
    if (number(input.rowsKept) === 0 || !isNumber(input.leavesAfter)) return undefined;
    const column = columnOf(operator, input.leavesBy);
    const holder = column?.heldBy ?? column?.input.name ?? input.leavesBy;
    if (!isNumber(column?.watermark)) return `oldest row waits for the first row of ${holder}`;
    const rest = input.leavesAfter - column.watermark;
    return rest > 0
      ? `oldest row waits for ${holder}: ${duration(rest)} to go`
      : "oldest row leaves with the next batch";
  };

  /** What an input keeps and what its oldest row waits for, as a sentence. */
  const words = (operator, input) => {
    if (number(input.rowsKept) === 0) return `${input.name} keeps no row.`;
    const keeps = `${input.name} keeps ${count(input.rowsKept, "row")} (${bytes(input.bytesKept)})`;
    const since = isNumber(input.oldest) ? `${keeps}, the oldest of ${instant(input.oldest)}` : keeps;
    if (!isNumber(input.leavesAfter)) return `${since}.`;
    const column = columnOf(operator, input.leavesBy);
    const rest = input.leavesAfter - column?.watermark;
    const now = !isNumber(column?.watermark)
      ? "undefined"
      : `now ${instant(column.watermark)}` + (rest > 0 ? `, ${duration(rest)} to go` : "");
    const heldBy = column?.heldBy ? `, held back by ${column.heldBy}` : "";
    return (
      `${since}, which leaves once the watermark of ${input.leavesBy} is later than ` +
      `${instant(input.leavesAfter)} (${now}${heldBy}).`
    );
  };

  /** The input whose watermark is the furthest behind, which holds the output back, as a sentence. */
  const answer = (figures) => {
    const all = sources(figures);
    const without = all.filter(({ column }) => !isNumber(column.watermark)).map(({ input }) => input.name);
    if (all.length === 0 || without.length === all.length) return "No row with a time has arrived yet.";
    if (without.length > 0)
      return `${without.join(", ")}: no row with a time yet, so there is no watermark, and rows that wait for it stay.`;
    const now = newest(figures);
    const behind = all.map((each) => ({ ...each, lag: now - each.column.watermark })).sort((a, b) => b.lag - a.lag);
    const [first, second] = behind;
    const name =
      `${first.input.name}: the watermark of ${first.column.name} is ` +
      `${duration(first.lag)} behind the newest row`;
    if (second === undefined) return `${name}.`;
    const own = isNumber(first.column.newest) ? first.column.newest - first.column.watermark : first.lag;
    if (first.lag <= Math.max(second.lag, own, 1000) * 1.5)
      return `Nothing stands out: every watermark is at most ${duration(first.lag)} behind the newest row.`;
    return `${name}, that of ${second.input.name} ${duration(second.lag)}.`;
  };

  const Row = 16;

  /** The text next to a lane. */
  const saysOf = (operator, input, now) => {
    const said = list(input.columns).map((column) => {
      if (!isNumber(column.watermark)) return { words: `${column.name}: no watermark yet`, kind: "sj-of-limit" };
      const by = isSource(input, column) ? "" : `, by ${column.heldBy}`;
      return {
        words: `watermark ${clock(column.watermark, now)}, ${short(now - column.watermark)} behind${by}`,
        kind: "sj-of-watermark",
      };
    });
    const rest = toGo(operator, input);
    return rest ? [...said, { words: rest, kind: "sj-small" }] : said;
  };

  /** An input as three columns: its name and what it keeps, its time axis, and the text about it. */
  const lane = ({ operator, input }, top, at) => {
    const { left, right, width, x, now } = at;
    const says = saysOf(operator, input, now).flatMap(({ words: text, kind }) =>
      wrapped(text, width - right - 20).map((line) => ({ line, kind })),
    );
    const late = number(input.late) > 0;
    const height = Math.max(2 * Row + 12, Math.max(says.length, late ? 3 : 2) * Row + 12);
    const middle = top + height / 2;
    const name = { "data-input": input.name };
    let body = element(
      "text",
      { class: "sj-name", x: 8, y: top + 19, ...name },
      element("title", {}, escape(input.name)) + escape(fitted(labelOf(input), left - 20, 13, true)),
    );
    body += textAt(
      8,
      top + 19 + Row,
      fitted(`${count(input.rowsKept, "row")}, ${bytes(input.bytesKept)}`, left - 20),
      { class: "sj-small" },
    );
    if (late)
      body += textAt(8, top + 19 + 2 * Row, `${count(input.late, "row")} late`, {
        class: "sj-of-late",
        ...name,
        "data-late": input.late,
      });
    body += element("line", { class: "sj-axis", x1: left, x2: right, y1: middle, y2: middle });
    const last = list(input.columns)[0]?.newest;
    if (isNumber(input.oldest) && number(input.rowsKept) > 0) {
      const to = Math.max(isNumber(last) ? last : input.oldest, input.oldest);
      const from = Math.min(x(input.oldest), right - 4);
      body += element(
        "rect",
        {
          class: "sj-state",
          x: from,
          y: middle - 8,
          width: Math.max(x(to) - from, 4),
          height: 16,
          rx: 3,
          ...name,
          "data-rows": input.rowsKept,
          "data-bytes": input.bytesKept,
          "data-from": input.oldest,
          "data-to": to,
        },
        element(
          "title",
          {},
          escape(
            `${input.name} keeps ${count(input.rowsKept, "row")} from ${instant(input.oldest)} to ${instant(to)}`,
          ),
        ),
      );
    }
    const limit = limitOf(operator, input);
    if (limit?.at !== undefined) {
      const tip = x(limit.at);
      body += element(
        "path",
        {
          class: "sj-limit",
          d: `M ${tip} ${middle + 3} l -6 11 h 12 Z`,
          ...name,
          "data-time": limit.time,
          "data-column": limit.column,
          "data-ms": limit.at,
        },
        element("title", {}, escape(`eviction limit of ${limit.time}: ${instant(limit.at)}; older rows leave`)),
      );
    }
    for (const column of list(input.columns)) {
      if (isNumber(column.newest))
        body += element(
          "circle",
          { class: "sj-newest", cx: x(column.newest), cy: middle, r: 4.5 },
          element("title", {}, escape(`newest row by ${column.name}: ${instant(column.newest)}`)),
        );
      if (isNumber(column.watermark))
        body += element(
          "line",
          {
            class: "sj-watermark",
            x1: x(column.watermark),
            x2: x(column.watermark),
            y1: middle - 15,
            y2: middle + 15,
            "data-column": column.name,
            "data-ms": column.watermark,
            "data-held-by": column.heldBy,
          },
          element("title", {}, escape(`watermark of ${column.name}: ${instant(column.watermark)}`)),
        );
    }
    says.forEach(({ line, kind }, row) => {
      body += textAt(right + 16, top + 19 + row * Row, line, { class: kind });
    });
    return { body, height };
  };

  /** The time up to which all rows of an operator's inputs have arrived, and the input whose watermark decides it. */
  const completeOf = (operator) => {
    const all = list(operator.inputs).flatMap((input) => list(input.columns).map((column) => ({ input, column })));
    if (all.length === 0 || all.some(({ column }) => !isNumber(column.watermark))) return undefined;
    return all.reduce((one, other) => (other.column.watermark < one.column.watermark ? other : one));
  };

  /** An operator's inputs, with a line through them at the deciding watermark. */
  const group = (operator, top, at) => {
    const complete = completeOf(operator);
    const holder = complete && (complete.column.heldBy ?? complete.input.name);
    const says = complete
      ? `complete up to ${clock(complete.column.watermark, at.now)}, by ${holder}`
      : "no watermark yet";
    let body = element(
      "text",
      { class: "sj-title", x: 8, y: top + 18 },
      escape(fitted(`${operator.operator} ${operator.title}`, at.right - 20, 13, true)),
    );
    body += textAt(at.right + 16, top + 18, fitted(says, at.width - at.right - 20), { class: "sj-small" });
    let y = top + 26;
    const lanes = list(operator.inputs).map((input) => {
      const one = lane({ operator, input }, y, at);
      y += one.height;
      return one.body;
    });
    const line = complete && at.x(complete.column.watermark);
    const behind = complete
      ? element("rect", {
          class: "sj-complete",
          x: at.left,
          y: top + 26,
          width: line - at.left,
          height: y - top - 26,
        }) +
        element("line", {
          class: "sj-waits",
          x1: line,
          x2: line,
          y1: top + 24,
          y2: y,
          "data-held-by": holder,
          "data-column": complete.column.name,
          "data-ms": complete.column.watermark,
        })
      : "";
    return { body: `<g data-operator="${number(operator.operator)}">${behind}${body}${lanes.join("")}</g>`, y };
  };

  const axisOf = (axis, at, top, bottom) => {
    const room = Math.max(Math.floor((at.right - at.left) / 110), 2);
    const end = { x: at.right, words: "newest row" };
    const labels = apart([
      end,
      ...axis
        .ticks(room)
        .slice(1)
        .map((each) => ({ x: at.x(at.now - each), words: short(each) })),
    ]);
    const lines = labels.map(({ x }) => element("line", { class: "sj-tick", x1: x, x2: x, y1: top, y2: bottom }));
    const texts = (top > 10 ? [top - 6, bottom + 16] : [bottom + 16]).map((y) => labelsAt(labels, y));
    const how = `behind the newest row${axis.grows ? " (steps grow)" : ""}`;
    const title = wrapped(how, at.left - 30, 11).map((line, row) =>
      textAt(8, bottom + 16 + row * 14, line, { class: "sj-small sj-label" }),
    );
    return { lines: lines.join(""), texts: texts.join("") + title.join(""), height: 10 + 14 * title.length };
  };

  /** The time axes of all inputs as an SVG of the given width. */
  const picture = (figures, width) => {
    const now = newest(figures);
    const all = inputsOf(figures);
    if (!isNumber(now))
      return svg(width, 40, { class: "sj-picture" }, textAt(8, 25, "No row with a time has arrived yet."));
    const gaps = all
      .flatMap(({ operator, input }) => [
        ...list(input.columns).map((column) => column.newest - column.watermark),
        limitOf(operator, input)?.postponeMs,
      ])
      .filter((gap) => isNumber(gap) && gap > 0);
    const behind = all
      .flatMap(({ operator, input }) => [
        limitOf(operator, input)?.at,
        number(input.rowsKept) > 0 ? input.oldest : undefined,
        ...list(input.columns).map((column) => column.watermark),
        ...list(input.columns).map((column) => column.newest),
      ])
      .filter(isNumber)
      .map((time) => now - time);
    const axis = lengths(most(behind, 1000) * 1.03, gaps.length === 0 ? undefined : Math.max(Math.min(...gaps), 100));
    const left = Math.round(Math.min(Math.max(width * 0.17, 140), 260));
    const right = Math.round(width - Math.min(Math.max(width * 0.28, 220), 420));
    const x = (time) => round(right - Math.min(axis.at(now - time), 1) * (right - left - 10));
    const at = { left, right, width, x, now };
    const top = all.length > 8 ? 20 : 4;
    let y = top,
      body = "";
    for (const operator of list(figures.operators)) {
      const one = group(operator, y, at);
      body += one.body;
      y = one.y + 10;
    }
    const ticks = axisOf(axis, at, top, y);
    const title = element(
      "title",
      {},
      "the rows that the inputs keep, and the deciding watermarks, over the time of the rows",
    );
    return svg(
      width,
      y + Math.max(ticks.height, 24),
      { class: "sj-picture sj-holds", "data-axis": axis.grows ? "grows" : "even" },
      title + ticks.lines + body + ticks.texts,
    );
  };

  const key = `<p class="sj-key"><span><i class="sj-k-state"></i>rows in state</span>
    <span><i class="sj-k-newest"></i>newest row</span><span><i class="sj-k-watermark"></i>watermark</span>
    <span><i class="sj-k-limit"></i>eviction limit: older rows leave</span>
    <span><i class="sj-k-complete"></i>complete: no row this old can still arrive</span></p>`;

  return { picture, key, answer, words, inputsOf, labelOf, limitOf, isSource, sources, newest };
})();
