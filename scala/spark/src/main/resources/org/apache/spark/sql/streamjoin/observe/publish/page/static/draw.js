// Helpers of all charts: texts and their sizes, axes. The report, notebooks and Spark's page load the same files,
// `draw.js` first. Names in the figures come from users, so all text must go through `escape` and all numbers through
// `number`.
var StreamJoin = {};
StreamJoin.draw = (() => {
  "use strict";

  const escape = (text) => String(text ?? "").replace(/[&<>"'`]/g, (one) => `&#${one.charCodeAt(0)};`);

  const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
  const number = (value) => (isNumber(value) ? value : 0);
  const list = (value) => (Array.isArray(value) ? value : []);
  const sum = (values) => values.reduce((one, other) => one + number(other), 0);
  const most = (values, least = -Infinity) => values.reduce((one, other) => Math.max(one, other), least);
  const round = (value) => Math.round(value * 10) / 10;

  /** Attributes; those without a value are omitted. */
  const attributes = (of) =>
    Object.entries(of)
      .filter(([, value]) => value !== undefined && value !== null)
      .map(([name, value]) => ` ${name}="${escape(isNumber(value) ? Math.round(value * 100) / 100 : value)}"`)
      .join("");
  const element = (tag, of, inside = "") => `<${tag}${attributes(of)}>${inside}</${tag}>`;
  const textAt = (x, y, words, of = {}) => element("text", { x: round(x), y: round(y), ...of }, escape(words));
  const svg = (width, height, of, inside) =>
    element(
      "svg",
      { ...of, width, height, viewBox: `0 0 ${width} ${height}`, role: "img", xmlns: "http://www.w3.org/2000/svg" },
      inside,
    );

  let context;
  /** The width of a text in pixels; an estimate if there is no page to measure it in. */
  const widthOf = (text, size = 12, bold = false) => {
    if (typeof document === "undefined") return String(text).length * size * 0.58;
    context ??= document.createElement("canvas").getContext("2d");
    context.font = `${bold ? "bold " : ""}${size}px ${Font}`;
    return context.measureText(String(text)).width;
  };
  const Font = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif";

  /** A text that fits, truncated if necessary. */
  const fitted = (text, width, size = 12, bold = false) => {
    const all = String(text);
    if (widthOf(all, size, bold) <= width) return all;
    let many = all.length - 1;
    while (many > 1 && widthOf(`${all.slice(0, many)}…`, size, bold) > width) many -= 1;
    return `${all.slice(0, many)}…`;
  };

  /** A text split into lines that fit. */
  const wrapped = (text, width, size = 12) => {
    const lines = [];
    for (const word of String(text).split(" ")) {
      const last = lines.length - 1;
      if (last >= 0 && widthOf(`${lines[last]} ${word}`, size) <= width) lines[last] += ` ${word}`;
      else lines.push(word);
    }
    return lines.map((line) => fitted(line, width, size));
  };

  const grouped = (value) => number(value).toLocaleString("en-US", { maximumFractionDigits: 0 });
  const count = (value, one) => `${grouped(value)} ${one}${value === 1 ? "" : "s"}`;

  const scaled = (value, units, step) => {
    const size = Math.abs(number(value));
    const at = size < step ? 0 : Math.min(Math.floor(Math.log(size) / Math.log(step) + 1e-9), units.length - 1);
    const digits = number(value) / step ** at;
    const short = at === 0 || Math.abs(digits) >= 100 ? Math.round(digits) : Math.round(digits * 10) / 10;
    return `${short}${units[at]}`;
  };
  const bytes = (value) => scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000);
  /** `73k`: for an axis. */
  const compact = (value) => scaled(value, ["", "k", "M", "G", "T"], 1000);

  const Year = 365 * 86400000;
  const Units = [
    ["year", Year, "y"],
    ["day", 86400000, "d"],
    ["hour", 3600000, "h"],
    ["minute", 60000, "min"],
    ["second", 1000, "s"],
    ["millisecond", 1, "ms"],
  ];

  const partsOf = (millis, most) => {
    let rest = Math.abs(Math.round(number(millis)));
    if (rest >= 10000) rest = Math.round(rest / 1000) * 1000;
    const parts = [];
    for (const [name, size, unit] of Units) {
      const many = Math.floor(rest / size);
      rest -= many * size;
      if (many > 0) parts.push([many, name, unit]);
      if (name === "year" && many >= 10) break;
    }
    return parts.slice(0, most);
  };
  const tenths = (millis) => Math.round(Math.abs(number(millis)) / 100) / 10;
  const isFew = (millis) => Math.abs(number(millis)) >= 1000 && Math.abs(number(millis)) < 10000;
  /** `1 hour 30 minutes`: the two largest units. Seconds below ten have one decimal. */
  const duration = (millis) =>
    isFew(millis)
      ? `${tenths(millis)} second${tenths(millis) === 1 ? "" : "s"}`
      : partsOf(millis, 2)
          .map(([many, name]) => count(many, name))
          .join(" ") || "0 seconds";
  /** `1 h 30 min` */
  const short = (millis) =>
    isFew(millis)
      ? `${tenths(millis)} s`
      : partsOf(millis, 2)
          .map(([many, , unit]) => `${grouped(many)} ${unit}`)
          .join(" ") || "0";

  /** In UTC, without parts that are zero: `2026-01-01 10:00`. */
  const instant = (millis) => {
    const time = new Date(millis);
    return Number.isNaN(time.getTime())
      ? `${number(millis)} ms`
      : time
          .toISOString()
          .replace(/^\+0*/, "")
          .replace("T", " ")
          .replace("Z", "")
          .replace(/\.000$/, "")
          .replace(/:00$/, "");
  };
  const sameDay = (one, other) => Math.floor(one / 86400000) === Math.floor(other / 86400000);
  /** Only the time of day if the date is that of another time, which is already shown. */
  const clock = (millis, day) => {
    const time = new Date(Math.floor(millis / 1000) * 1000);
    if (Number.isNaN(time.getTime())) return instant(millis);
    return sameDay(millis, day) ? time.toISOString().slice(-13, -5) : instant(time.getTime());
  };

  const Steps = [
    1,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    1000,
    2000,
    5000,
    10000,
    20000,
    30000,
    60000,
    120000,
    300000,
    600000,
    1200000,
    1800000,
    3600000,
    7200000,
    10800000,
    21600000,
    43200000,
    86400000,
    172800000,
    604800000,
    2592000000,
    7776000000,
    Year,
    10 * Year,
    100 * Year,
    1000 * Year,
    10000 * Year,
    100000 * Year,
  ];
  const Ladder = [
    1,
    10,
    100,
    1000,
    10000,
    60000,
    600000,
    3600000,
    21600000,
    86400000,
    604800000,
    2592000000,
    Year,
    10 * Year,
    100 * Year,
    1000 * Year,
    10000 * Year,
    100000 * Year,
  ];

  /** If the largest length exceeds the smallest relevant one by more than this factor, the steps of an axis grow. */
  const Wide = 60;

  /**
   * An axis of durations from 0: with even steps or, if `smallest` would not be visible, with growing steps. `at` is
   * between 0 and 1.
   */
  const lengths = (largest, smallest) => {
    const to = Math.max(largest, 1);
    const grows = isNumber(smallest) && smallest > 0 && to / smallest > Wide;
    const whole = Math.log1p(to / smallest);
    const at = (millis) => (grows ? Math.log1p(Math.max(millis, 0) / smallest) / whole : millis / to);
    const ticks = (room) => {
      if (grows) return [0, ...Ladder.filter((each) => each >= smallest / 2 && each <= to)];
      const step = Steps.find((each) => to / each <= room) ?? to / room;
      return Array.from({ length: Math.floor(to / step) + 1 }, (_, many) => many * step);
    };
    return { at, ticks, grows, to };
  };

  /** An axis of numbers from 0 to approximately the largest. */
  const numbers = (largest, room) => {
    const to = Math.max(largest, 1);
    const power = 10 ** Math.floor(Math.log10(to / room));
    const step = Math.max([1, 2, 5, 10].map((each) => each * power).find((each) => to / each <= room) ?? to, 1);
    const ticks = Array.from({ length: Math.floor(to / step + 1e-9) + 1 }, (_, many) => many * step);
    return { at: (value) => value / to, ticks: () => ticks, grows: false, to };
  };

  /** The labels that fit without overlaps, starting with the first: each has its center `x` and its `words`. */
  const apart = (labels, gap = 12) => {
    const taken = [];
    return labels.filter(({ x, words }) => {
      const half = widthOf(words, 11) / 2 + gap / 2;
      if (taken.some(([from, to]) => x + half > from && x - half < to)) return false;
      taken.push([x - half, x + half]);
      return true;
    });
  };

  /** Labels of an axis, centered at their `x`. */
  const labelsAt = (labels, y) =>
    labels
      .map(({ x, words }) => textAt(x, y, words, { class: "sj-small sj-label", "text-anchor": "middle" }))
      .join("");

  const hintsOf = (hints) => {
    const items = list(hints)
      .map((hint) => element("li", { class: "sj-hint" }, escape(hint)))
      .join("");
    return items === "" ? "" : `<ul class="sj-hints">${items}</ul>`;
  };

  /** A bar of parts with their labels below. Each part is at least a few pixels wide, so that it can be found. */
  const stack = (parts, of = {}) => {
    const shown = parts.filter((part) => number(part.value) > 0);
    const bar = shown.map((part) =>
      element("span", {
        class: "sj-part",
        "data-part": part.name,
        style: `flex-grow:${number(part.value)};background:var(${part.color})`,
        title: `${part.name}: ${part.words}`,
      }),
    );
    const names = shown.map(
      (part) =>
        `<li><i style="background:var(${part.color})"></i>` +
        `<b>${escape(part.words)}</b> ${escape(part.name)}</li>`,
    );
    return element(
      "div",
      { class: "sj-stack", ...of },
      `<div class="sj-bar">${bar.join("")}</div>` + `<ul class="sj-names">${names.join("")}</ul>`,
    );
  };

  return {
    escape,
    isNumber,
    number,
    list,
    sum,
    most,
    round,
    element,
    textAt,
    svg,
    widthOf,
    fitted,
    wrapped,
    grouped,
    count,
    bytes,
    compact,
    duration,
    short,
    instant,
    sameDay,
    clock,
    lengths,
    numbers,
    apart,
    labelsAt,
    hintsOf,
    stack,
    Font,
  };
})();
