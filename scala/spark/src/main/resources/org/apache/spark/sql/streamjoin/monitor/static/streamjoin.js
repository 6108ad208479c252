// The plan of a query with a picture of each join, from the figures of a batch (docs/figures.schema.json).
// The report, notebooks and Spark's page show the same. Names in the figures are of users: all text goes
// through `escape`, all numbers through `number`.
var StreamJoin = (() => {
  "use strict";

  const css = `
.sj-plan { --sj-text: #1f2328; --sj-muted: #57606a; --sj-paper: #ffffff; --sj-box: #f6f8fa; --sj-border: #d0d7de;
  --sj-state: #0969da; --sj-watermark: #1a7f37; --sj-limit: #bc4c00; --sj-gone: #f6d5c3; --sj-hint: #fff8c5;
  color: var(--sj-text); background: var(--sj-paper); font: 14px/1.45 sans-serif; padding: 8px; }
@media (prefers-color-scheme: dark) { .sj-plan { --sj-text: #e6edf3; --sj-muted: #9198a1; --sj-paper: #0d1117;
  --sj-box: #161b22; --sj-border: #3d444d; --sj-state: #4493f8; --sj-watermark: #3fb950; --sj-limit: #f0883e;
  --sj-gone: #4d2d1c; --sj-hint: #3b2e0a; } }
.sj-operator { border: 1px solid var(--sj-border); border-radius: 8px; margin: 8px 0; padding: 8px 12px;
  background: var(--sj-box); overflow-x: auto; }
.sj-operator h3 { margin: 0 0 2px; font-size: 15px; }
.sj-figures, .sj-head, .sj-from { color: var(--sj-muted); margin: 0 0 6px; font-size: 13px; }
.sj-from { margin: 8px 0 0; }
.sj-words { margin: 4px 0; padding-left: 20px; }
.sj-hints { list-style: none; margin: 6px 0; padding: 0; }
.sj-hint { background: var(--sj-hint); border-left: 4px solid var(--sj-limit); padding: 4px 8px; margin: 3px 0; }
.sj-below { border-left: 3px solid var(--sj-border); padding-left: 12px; margin-left: 4px; }
.sj-picture { max-width: 860px; width: 100%; min-width: 560px; height: auto; display: block;
  background: var(--sj-paper); border-radius: 6px; font: 12px sans-serif; fill: var(--sj-text); }
.sj-picture text { paint-order: stroke; stroke: var(--sj-paper); stroke-width: 3px; }
.sj-name { font-weight: bold; font-size: 13px; }
.sj-small { fill: var(--sj-muted); }
.sj-axis, .sj-tick { stroke: var(--sj-muted); stroke-width: 1.5; }
.sj-tick { stroke-width: 0.5; opacity: 0.4; }
.sj-gone { fill: var(--sj-gone); }
.sj-state { fill: var(--sj-state); fill-opacity: 0.75; }
.sj-watermark { stroke: var(--sj-watermark); stroke-width: 3; }
.sj-limit { stroke: var(--sj-limit); stroke-width: 3; }
.sj-picture .sj-of-watermark { fill: var(--sj-watermark); }
.sj-picture .sj-of-limit, .sj-picture .sj-of-late { fill: var(--sj-limit); }
.sj-waits { fill: none; stroke: var(--sj-text); stroke-width: 1.5; }
.sj-tip { fill: var(--sj-text); }`;

  const Left = 150, Right = 840, Width = 860;
  const Row = 16, Bar = 34, Track = 22;

  const escape = (text) =>
    String(text ?? "").replace(/[&<>"'`]/g, (one) => `&#${one.charCodeAt(0)};`);

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const number = (value) => (isNumber(value) ? value : 0);
  const list = (value) => (Array.isArray(value) ? value : []);
  const cut = (text, most) => (String(text).length > most ? `${String(text).slice(0, most - 1)}…` : String(text));

  /** `data-` attributes and others; those without a value are left out. */
  const attributes = (of) =>
    Object.entries(of)
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => ` ${name}="${escape(isNumber(value) ? Math.round(value * 100) / 100 : value)}"`)
      .join("");
  const element = (tag, of, inside = "") => `<${tag}${attributes(of)}>${inside}</${tag}>`;
  const textAt = (x, y, words, of = {}) => element("text", { x, y, ...of }, escape(words));

  const count = (value, one) => `${number(value).toLocaleString("en-US")} ${one}${value === 1 ? "" : "s"}`;

  const bytes = (value) => {
    const units = ["B", "kB", "MB", "GB", "TB"];
    const at = value < 1000 ? 0 : Math.min(Math.floor(Math.log10(value) / 3), units.length - 1);
    const scaled = number(value) / 1000 ** at;
    return `${at === 0 || scaled >= 100 ? Math.round(scaled) : scaled.toFixed(1)} ${units[at]}`;
  };

  const Units = [["day", 86400000], ["hour", 3600000], ["minute", 60000], ["second", 1000], ["millisecond", 1]];

  /** `1 hour 30 minutes`: the two largest units, from ten seconds on by whole seconds. */
  const duration = (millis) => {
    let rest = Math.abs(Math.round(number(millis)));
    if (rest >= 10000) rest = Math.round(rest / 1000) * 1000;
    const parts = [];
    for (const [name, size] of Units) {
      const many = Math.floor(rest / size);
      rest -= many * size;
      if (many > 0) parts.push(`${many} ${name}${many === 1 ? "" : "s"}`);
    }
    return parts.slice(0, 2).join(" ") || "0 seconds";
  };

  /** In UTC, without parts that are zero: `2026-01-01 10:00`. */
  const instant = (millis) => {
    const time = new Date(millis);
    return Number.isNaN(time.getTime()) ? String(millis) : time.toISOString()
      .replace("T", " ").replace("Z", "").replace(/\.000$/, "").replace(/:00$/, "");
  };
  const sameDay = (from, to) => Math.floor(from / 86400000) === Math.floor(to / 86400000);

  /** The column of a name with the input that has it. */
  const columnOf = (operator, name) => {
    for (const [at, input] of list(operator.inputs).entries())
      for (const column of list(input.columns)) if (column.name === name) return { ...column, at };
    return undefined;
  };

  /** What is older than the limit leaves. */
  const limitsOf = (operator, input) =>
    list(input.leaves).map((leaves) => {
      const column = columnOf(operator, leaves.column);
      const known = column !== undefined && isNumber(column.watermark);
      // A limit of one microsecond, "not before", is a millisecond here.
      const postponeMs = leaves.postponeMs === -1 ? 0 : number(leaves.postponeMs);
      return { ...leaves, postponeMs, of: column, limit: known ? column.watermark - postponeMs : undefined };
    });

  const moved = (postpone) =>
    postpone === 0 ? "the same time" : `${postpone > 0 ? "minus" : "plus"} ${duration(postpone)}`;

  /** Times that a picture shows, a little wider than they are. */
  const domainOf = (operator) => {
    const times = list(operator.inputs).flatMap((input) => [
      input.oldest,
      ...list(input.columns).flatMap((column) => [column.watermark, column.newest]),
      ...limitsOf(operator, input).map((each) => each.limit),
    ]).filter(isNumber);
    if (times.length === 0) return undefined;
    const from = times.reduce((one, other) => Math.min(one, other));
    const to = times.reduce((one, other) => Math.max(one, other));
    const margin = Math.max((to - from) * 0.06, 500);
    return { from: from - margin, to: to + margin };
  };

  const Steps = [1, 10, 100, 1000, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000, 10800000, 21600000,
    43200000, 86400000, 604800000, 2592000000, 31536000000, 315360000000];
  const ticksOf = ({ from, to }) => {
    const step = Steps.find((each) => (to - from) / each <= 7) ?? (to - from) / 5;
    const ticks = [];
    for (let time = Math.ceil(from / step) * step; time <= to; time += step) ticks.push(time);
    return ticks;
  };

  /** A mark of a lane: a line, with its words in a row of their own above the bar. */
  const mark = (kind, x, row, axis, words, data) => {
    const toTheLeft = x > Left + (Right - Left) * 0.6;
    const top = row - 10;
    return element("line", { class: `sj-${kind}`, x1: x, x2: x, y1: top, y2: axis + 6, ...data }) +
      textAt(toTheLeft ? x - 6 : x + 6, row, words,
        { class: `sj-of-${kind}`, "text-anchor": toTheLeft ? "end" : "start" });
  };

  /** The time axis of an input with its state, watermarks and eviction limits, from `top` down. */
  const lane = (operator, input, at, top, scale, time) => {
    const marks = [];
    for (const column of list(input.columns)) {
      if (!isNumber(column.watermark)) continue;
      const held = column.heldBy && column.heldBy !== input.name ? `, held by ${column.heldBy}` : "";
      const words = `watermark of ${column.name}: ${time(column.watermark)}${held}`;
      marks.push({ kind: "watermark", at: column.watermark, words, data: {
        "data-column": column.name, "data-ms": column.watermark, "data-held-by": column.heldBy } });
    }
    for (const each of limitsOf(operator, input)) {
      if (each.limit === undefined) continue;
      const words = `eviction limit of ${each.time}: ${time(each.limit)}`;
      marks.push({ kind: "limit", at: each.limit, words, data: {
        "data-input": input.name, "data-time": each.time, "data-column": each.column, "data-ms": each.limit } });
    }
    marks.sort((one, other) => one.at - other.at);
    const bar = top + 8 + Math.max(marks.length, 1) * Row;
    const axis = bar + Bar;
    const gone = marks.find((each) => each.kind === "limit");
    const name = { "data-input": input.name };
    let svg = "";
    if (gone !== undefined)
      svg += element("rect", { class: "sj-gone", x: Left, y: bar, width: scale(gone.at) - Left, height: Bar },
        element("title", {}, "what is older has left"));
    svg += element("line", { class: "sj-axis", x1: Left, x2: Right, y1: axis, y2: axis });
    const newest = list(input.columns)[0]?.newest;
    if (isNumber(input.oldest) && number(input.rowsKept) > 0) {
      const to = Math.max(isNumber(newest) ? newest : input.oldest, input.oldest);
      const x = scale(input.oldest), width = Math.max(scale(to) - x, 4);
      svg += element("rect", { class: "sj-state", x, y: bar + 7, width, height: Bar - 12, rx: 3, ...name,
        "data-rows": input.rowsKept, "data-bytes": input.bytesKept, "data-from": input.oldest, "data-to": to },
        element("title", {}, escape(`${input.name} keeps ${count(input.rowsKept, "row")} from ${time(input.oldest)}`)));
    }
    marks.forEach((each, row) => {
      each.top = top + 2 + row * Row;
      svg += mark(each.kind, scale(each.at), each.top + 10, axis, each.words, each.data);
    });
    const side = input.side && String(input.name).length < 12 ? ` (${input.side})` : "";
    svg += element("text", { class: "sj-name", x: 12, y: top + 14, ...name },
      element("title", {}, escape(input.name)) + escape(cut(input.name, 17) + side));
    svg += textAt(12, top + 30, `${count(input.rowsKept, "row")}, ${bytes(number(input.bytesKept))}`);
    svg += textAt(12, top + 46, `${count(input.rowsIn, "row")} came`, { class: "sj-small" });
    if (number(input.late) > 0)
      svg += textAt(12, top + 62, `${number(input.late).toLocaleString("en-US")} late`,
        { class: "sj-of-late", ...name, "data-late": input.late });
    return { svg, axis, bar, top, bottom: Math.max(axis + 8, top + 68), at, marks };
  };

  /** From the watermark that decides to the eviction limit that follows from it. */
  const arrow = (operator, each, from, to, y, scale) => {
    const start = scale(each.of.watermark), end = scale(each.limit);
    const down = to.at > from.at;
    const markOf = (lane, kind, at) => lane.marks.find((one) => one.kind === kind && one.at === at);
    const startY = from.at <= to.at ? from.axis + 6 : markOf(from, "watermark", each.of.watermark).top;
    const tipY = down ? markOf(to, "limit", each.limit).top : to.axis + 8;
    const target = list(operator.inputs)[to.at].name, holder = each.of.heldBy ?? list(operator.inputs)[from.at].name;
    const words = `${target} waits for ${holder === target ? "its own watermark" : holder}: ${moved(each.postponeMs)}`;
    const tip = down ? `M ${end} ${tipY} l -5 -9 h 10 Z` : `M ${end} ${tipY} l -5 9 h 10 Z`;
    const half = words.length * 3.2;
    const middle = Math.min(Math.max((start + end) / 2, half + 8), Width - half - 8);
    const line = `M ${start} ${startY} V ${y} H ${end} V ${down ? tipY - 8 : tipY + 8}`;
    return element("path", { class: "sj-waits", d: line,
      "data-waits": target, "data-held-by": holder, "data-column": each.column, "data-postpone-ms": each.postponeMs }) +
      `<path class="sj-tip" d="${tip}"/>` + textAt(middle, y - 5, words, { "text-anchor": "middle", class: "sj-why" });
  };

  /** The time axes of an operator's inputs as an SVG. */
  const picture = (operator) => {
    const inputs = list(operator.inputs);
    const domain = domainOf(operator);
    if (domain === undefined)
      return `<svg class="sj-picture" viewBox="0 0 ${Width} 40" role="img">` +
        textAt(12, 25, "No row with a time has come yet.") + "</svg>";
    const unit = (Right - Left) / (domain.to - domain.from);
    const scale = (millis) => Math.round((Left + (millis - domain.from) * unit) * 10) / 10;
    const oneDay = sameDay(domain.from, domain.to);
    const time = (millis) =>
      oneDay && sameDay(millis, domain.from) ? instant(millis).slice(11) : instant(millis);
    // An arrow between two lanes has a track between them, one within a lane has it below the lane.
    const arrows = inputs.flatMap((input, at) =>
      limitsOf(operator, input).filter((each) => each.limit !== undefined)
        .map((each) => ({ ...each, to: at, from: each.of.at, band: Math.min(at, each.of.at) })));
    let y = 8, body = "";
    const lanes = [], tracks = [];
    inputs.forEach((input, at) => {
      const one = lane(operator, input, at, y, scale, time);
      lanes.push(one);
      body += one.svg;
      tracks[at] = one.bottom + Track;
      y = one.bottom + arrows.filter((each) => each.band === at).length * Track + 18;
    });
    for (const each of arrows) {
      body += arrow(operator, each, lanes[each.from], lanes[each.to], tracks[each.band], scale);
      tracks[each.band] += Track;
    }
    const bottom = y;
    let ticks = "";
    for (const tick of ticksOf(domain))
      ticks += element("line", { class: "sj-tick", x1: scale(tick), x2: scale(tick), y1: 8, y2: bottom }) +
        textAt(scale(tick), bottom + 14, time(tick), { class: "sj-small", "text-anchor": "middle" });
    ticks += textAt(12, bottom + 14, "event time, UTC", { class: "sj-small" });
    if (oneDay) ticks += textAt(12, bottom + 28, instant(domain.from).slice(0, 10), { class: "sj-small" });
    const title = element("title", {}, escape(`${operator.title}: what its inputs keep, and for whom they wait`));
    return element("svg", { class: "sj-picture", viewBox: `0 0 ${Width} ${bottom + 36}`, role: "img",
      "data-operator": operator.operator }, title + ticks + body);
  };

  /** What an input keeps and what its oldest row waits for, as a sentence. */
  const words = (operator, input) => {
    const name = input.name;
    if (number(input.rowsKept) === 0) return `${name} keeps no row.`;
    const keeps = `${name} keeps ${count(input.rowsKept, "row")} (${bytes(input.bytesKept)})`;
    const since = isNumber(input.oldest) ? `${keeps}, the oldest of ${instant(input.oldest)}` : keeps;
    if (!isNumber(input.leavesAfter)) return `${since}.`;
    const column = columnOf(operator, input.leavesBy);
    const toGo = input.leavesAfter - column?.watermark;
    const now = !isNumber(column?.watermark) ? "it has none yet" : `now ${instant(column.watermark)}` +
      (toGo > 0 ? `, ${duration(toGo)} to go` : "");
    const holder = column?.heldBy ? `; ${column.heldBy} decides it` : "";
    return `${since}: that one leaves once the watermark of ${input.leavesBy} is later than ` +
      `${instant(input.leavesAfter)} (${now}${holder}).`;
  };

  const hintsOf = (hints) => {
    const items = list(hints).map((hint) => element("li", { class: "sj-hint" }, escape(hint))).join("");
    return items === "" ? "" : `<ul class="sj-hints">${items}</ul>`;
  };

  const hotKeys = (input) => {
    const hottest = list(input.hotKeys)[0];
    if (hottest === undefined) return "";
    const share = Math.round(number(hottest.share) * 100);
    const inside = escape(`One key has ${share} % of its rows.`);
    return " " + element("span", { class: "sj-hot", "data-share": hottest.share }, inside);
  };

  const summary = (operator) => [
    `${count(operator.rowsOut, "row")} out`,
    `${count(operator.rowsKept, "row")} kept ` +
      `(${bytes(number(operator.bytesKept))}, index ${bytes(number(operator.memoryBytes))})`,
    ...(number(operator.padded) > 0 ? [`${number(operator.padded)} padded`] : []),
    ...(number(operator.late) > 0 ? [`${number(operator.late)} late`] : []),
  ].join(", ");

  /** An operator's box, with those below it inside. */
  const box = (operator, byNumber, shown) => {
    shown.add(operator.operator);
    const inputs = list(operator.inputs);
    const sentences = inputs.map((input) => element("li", { class: "sj-keeps", "data-input": input.name,
      "data-waits-for": input.leavesBy }, escape(words(operator, input)) + hotKeys(input))).join("");
    const below = inputs.map((input) => {
      const boxes = list(input.below).filter((one) => byNumber.has(one) && !shown.has(one))
        .map((one) => box(byNumber.get(one), byNumber, shown)).join("");
      const from = element("p", { class: "sj-from" }, escape(`${input.name} comes from`));
      return boxes === "" ? "" : `<div class="sj-below">${from}${boxes}</div>`;
    }).join("");
    return element("section", { class: "sj-operator", "data-operator": operator.operator, "data-kind": operator.kind },
      element("h3", {}, escape(`${operator.operator} ${operator.title}`)) +
      element("p", { class: "sj-figures", "data-rows-kept": operator.rowsKept, "data-rows-out": operator.rowsOut },
        escape(summary(operator))) +
      hintsOf([...list(operator.hints), ...inputs.flatMap((input) => list(input.hints))]) +
      picture(operator) + `<ul class="sj-words">${sentences}</ul>` + below);
  };

  /** The operators of a query from the output down, as HTML. */
  const plan = (figures) => {
    const operators = list(figures?.operators);
    const byNumber = new Map(operators.map((one) => [one.operator, one]));
    const below = new Set(operators.flatMap((one) => list(one.inputs).flatMap((input) => list(input.below))));
    const shown = new Set();
    const boxes = operators.filter((one) => !below.has(one.operator)).map((one) => box(one, byNumber, shown)).join("");
    const took = figures?.phasesMs?.triggerExecution;
    const head = [
      `${figures?.name ?? figures?.id ?? "query"}`, `batch ${number(figures?.batch)}`,
      ...(isNumber(figures?.timestamp) ? [`${instant(figures.timestamp)} UTC`] : []),
      ...(isNumber(took) ? [`took ${took} ms`] : []),
      ...(number(figures?.triggerMs) > 0 ? [`one each ${duration(figures.triggerMs)}`] : []),
    ].join(", ");
    return element("div", { class: "sj-plan", "data-query": figures?.id, "data-batch": figures?.batch },
      `<style>${css}</style>` + element("p", { class: "sj-head" }, escape(head)) +
      (boxes || "<p>No operator of streamjoin in this query.</p>"));
  };

  return { plan, picture, escape, duration, instant, bytes, css };
})();
