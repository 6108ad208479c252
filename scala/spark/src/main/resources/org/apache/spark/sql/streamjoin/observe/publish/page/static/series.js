// Charts over the batches of a query: event time, rows, state, and time spent. A batch is either the figures of one
// batch, or a point that represents several batches, with the figures that the charts here need.
StreamJoin.series = (() => {
  "use strict";
  const { escape, isNumber, number, list, most, round, element, textAt, svg, apart, labelsAt } = StreamJoin.draw;
  const { sum, widthOf, compact, duration, short, instant, clock, lengths, numbers, grouped, count } = StreamJoin.draw;
  const { inputsOf, isSource, labelOf, newest } = StreamJoin.holds;

  /** The number of lines with their own color. */
  const Colors = 8;
  const Height = 190,
    Top = 10,
    Bottom = 34;

  /** The number of batches that a point represents. */
  const many = (batch) => (isNumber(batch.batches) ? batch.batches : 1);

  /** Lines by input name, each with one value per batch, or undefined. */
  const linesOf = (batches, values) => {
    const found = new Map();
    batches.forEach((batch, at) => {
      for (const [name, value] of values(batch)) {
        if (!isNumber(value)) continue;
        if (!found.has(name)) found.set(name, { name, values: new Array(batches.length).fill(undefined) });
        found.get(name).values[at] = value;
      }
    });
    return [...found.values()];
  };

  /** An input's name, followed by the operator's number if another input has the same name. */
  const namesOf = (batches) => {
    const operators = new Map();
    for (const batch of batches)
      for (const { operator, input } of inputsOf(batch))
        operators.set(labelOf(input), (operators.get(labelOf(input)) ?? new Set()).add(operator.operator));
    return ({ operator, input }) =>
      operators.get(labelOf(input)).size > 1 ? `${labelOf(input)} (${operator.operator})` : labelOf(input);
  };

  const isOther = (line) => line.color === "--sj-other";
  const highest = (line) => most(line.values.filter(isNumber), 0);
  const ranked = (lines) => [...lines].sort((one, other) => highest(other) - highest(one)).map((line) => line.name);

  /** The color of each input, the same in all charts. Only the inputs with the highest lines in some chart have one. */
  const colorsOf = (pictures) => {
    const ranks = pictures.map(({ lines }) => ranked(lines));
    const chosen = new Set();
    for (let at = 0; chosen.size < Colors && ranks.some((names) => at < names.length); at += 1)
      for (const names of ranks) if (at < names.length && chosen.size < Colors) chosen.add(names[at]);
    const colors = new Map([...chosen].map((name, at) => [name, `--sj-c${at}`]));
    return (name) => colors.get(name) ?? "--sj-other";
  };

  /** The definition of a chart: its lines, the text for a value, an axis, and further marks. */
  const behind = (batches) => {
    const name = namesOf(batches);
    let now = -Infinity;
    const lines = linesOf(batches, (batch) => {
      now = Math.max(now, newest(batch));
      return inputsOf(batch).flatMap((each) =>
        list(each.input.columns)
          .filter((column) => isSource(each.input, column) && isNumber(column.watermark))
          .map((column) => [name(each), now - column.watermark]),
      );
    });
    const all = lines.flatMap((line) => line.values.filter((value) => value > 0));
    const axis = lengths(most(all, 1000) * 1.1, all.length ? Math.max(Math.min(...all), 1000) : undefined);
    return {
      id: "watermarks",
      question: "Does event time advance?",
      lines,
      axis,
      say: duration,
      tick: short,
      note:
        "How far each watermark is behind the newest row that the query has seen. A rising line belongs to the " +
        "input that holds the others back.",
    };
  };

  const rows = (batches) => {
    const name = namesOf(batches);
    const lines = linesOf(batches, (batch) => inputsOf(batch).map((each) => [name(each), number(each.input.rowsIn)]));
    const late = batches.map((batch) => sum(inputsOf(batch).map(({ input }) => input.late)));
    return {
      id: "rows",
      question: "How many rows arrive, and are they late?",
      lines,
      late,
      adds: true,
      axis: numbers(most(lines.map(highest), 1) * (sum(late) > 0 ? 1.15 : 1.04), 4),
      say: grouped,
      tick: compact,
      note:
        sum(late) > 0
          ? `Rows per batch by input, with totals below. ${count(sum(late), "row")} late, marked above their batches.`
          : "Rows per batch by input, with totals below. No row was late.",
    };
  };

  const state = (batches) => {
    const name = namesOf(batches);
    const lines = linesOf(batches, (batch) =>
      inputsOf(batch).map((each) => [name(each), number(each.input.rowsKept)]),
    );
    return {
      id: "state",
      question: "Does state grow?",
      lines,
      say: grouped,
      tick: compact,
      axis: numbers(most(lines.map(highest), 1) * 1.04, 4),
      note:
        "Rows in state by input. State is steady once the time bound has passed, and grows while an input lags behind.",
    };
  };

  /** The colors of the phases of a batch, by name: the same for all batches and for a single one. */
  const Phases = ["addBatch", "queryPlanning", "getBatch", "latestOffset", "walCommit", "commitOffsets"];
  const phaseColor = (name) => (Phases.includes(name) ? `--sj-c${Phases.indexOf(name)}` : "--sj-c6");

  /**
   * The height up to which columns are drawn in full: the first batch of a run may take ten times as long as all
   * others, which would otherwise be hairlines.
   */
  const cutAt = (heights) => {
    const sorted = [...heights].sort((one, other) => one - other);
    const usual = sorted[Math.floor((sorted.length - 1) * 0.95)] ?? 1;
    return sorted.length >= 8 && most(sorted, 1) > 3 * usual ? usual * 1.5 : most(sorted, 1);
  };

  /** The phases of batches; only the longest ones have their own line. */
  const phases = (batches) => {
    const names = linesOf(batches, (batch) =>
      Object.entries(batch.phasesMs ?? {})
        .filter(([name]) => name !== "triggerExecution")
        .map(([name, millis]) => [name, number(millis)]),
    );
    const bySize = names.sort((one, other) => sum(other.values) - sum(one.values));
    const whole = sum(names.map((line) => sum(line.values)));
    const shown = bySize.filter((line, at) => at < 5 && sum(line.values) >= whole / 100);
    const others = bySize.filter((line) => !shown.includes(line));
    const stacked = shown.map((line) => ({ ...line, color: phaseColor(line.name) }));
    if (others.length > 0)
      stacked.push({
        name: others.length === 1 ? others[0].name : "others",
        color: "--sj-other",
        values: batches.map((_, at) => sum(others.map((line) => line.values[at]))),
      });
    const trigger = most(
      batches.map((batch) => number(batch.triggerMs)),
      0,
    );
    const heights = batches.map((_, at) => sum(stacked.map((line) => line.values[at])));
    const longest = cutAt(heights.filter((height) => height > 0));
    const axis = lengths(Math.max(longest, trigger <= longest * 3 ? trigger : 0) * 1.02, undefined);
    return {
      id: "phases",
      question: "Where do batches spend their time?",
      lines: stacked,
      stacked: true,
      adds: true,
      axis,
      say: (millis) => (millis < 10000 ? `${grouped(millis)} ms` : duration(millis)),
      tick: short,
      trigger: trigger > 0 ? trigger : undefined,
      note:
        trigger > 0
          ? `The trigger starts a batch every ${duration(trigger)}; batches that take longer queue.`
          : "Each batch starts as soon as the previous one has ended.",
    };
  };

  const all = (batches) => {
    const pictures = [behind(batches), state(batches), rows(batches), phases(batches)];
    const color = colorsOf(pictures.slice(0, 2));
    // Lines with their own color are drawn above the others.
    return pictures
      .filter((one) => one.lines.length > 0)
      .map((one) => ({
        ...one,
        batches,
        lines: one.lines
          .map((line) => ({ ...line, color: line.color ?? color(line.name) }))
          .sort((line, other) => (one.stacked ? 0 : isOther(other) - isOther(line))),
      }));
  };

  const points = (line, at) => {
    let path = "",
      open = false;
    const alone = [];
    line.values.forEach((value, index) => {
      if (!isNumber(value)) {
        open = false;
        return;
      }
      path += `${open ? "L" : "M"}${at.x(index)} ${at.y(value)}`;
      if (!open && !isNumber(line.values[index + 1])) alone.push(index);
      open = true;
    });
    const dots = alone
      .map(
        (index) =>
          `<circle cx="${at.x(index)}" cy="${at.y(line.values[index])}" r="3" ` + `style="fill:var(${line.color})"/>`,
      )
      .join("");
    const style = `stroke:var(${line.color})`;
    return element("path", { class: "sj-line", "data-line": line.name, style, d: path }) + dots;
  };

  /** Columns that do not fit: a cut through each, with its value if there is room. */
  const cuts = (columns, at, width) => {
    const marks = columns.map(({ index }) =>
      element("path", {
        class: "sj-cut",
        d: `M ${round(at.x(index) - width / 2 - 2)} ${at.top + 14} l ${round(width + 4)} -6`,
        "data-cut": index,
      }),
    );
    const labels = columns.map(({ index, words }) => {
      const half = widthOf(words, 11) / 2;
      return { x: Math.min(Math.max(at.x(index), half + 2), at.width - half - 2), words };
    });
    const texts = apart(labels).map(({ x, words }) =>
      textAt(x, at.top - 4, words, { class: "sj-label", "text-anchor": "middle" }),
    );
    return marks.join("") + texts.join("");
  };

  /** The stacked columns of batches; each part is at least one pixel high. */
  const columns = (series, at) => {
    const step = at.step,
      width = Math.max(step * 0.82, 1);
    let body = "";
    const whole = at.y(0) - at.top;
    const cut = [];
    series.batches.forEach((_, index) => {
      let from = at.y(0);
      const total = sum(series.lines.map((line) => line.values[index]));
      const fits = Math.min(series.axis.to / Math.max(total, 1), 1);
      for (const line of series.lines) {
        const value = number(line.values[index]);
        if (value <= 0) continue;
        const height = Math.max(whole * (value / series.axis.to) * fits, 1);
        from -= height;
        body +=
          `<rect x="${round(at.x(index) - width / 2)}" y="${round(from)}" width="${round(width)}" ` +
          `height="${round(height)}" style="fill:var(${line.color})"/>`;
      }
      if (fits < 1) cut.push({ index, words: series.say(total) });
    });
    return body + cuts(cut, at, width);
  };

  /** The labels of batches below the axis. */
  const named = (series, at) => {
    const { batches } = series;
    const day = batches[batches.length - 1].timestamp;
    const labels = batches.map((batch, index) => {
      const words = isNumber(batch.timestamp) ? clock(batch.timestamp, day) : `${batch.batch}`;
      return { x: at.x(index), words, index };
    });
    const room = Math.max(Math.floor((at.right - at.left) / 130), 1);
    const each = Math.max(Math.ceil(batches.length / room), 1);
    const wanted = labels.filter((_, index) => (batches.length - 1 - index) % each === 0).reverse();
    const inside = wanted.filter(
      ({ x, words }) => x - widthOf(words, 11) / 2 >= 2 && x + widthOf(words, 11) / 2 <= at.width - 2,
    );
    return apart(inside, 16);
  };

  /** A chart as an SVG of the given width. */
  const picture = (series, width, chosen) => {
    const { batches, axis } = series;
    const labels = axis.ticks(4).map((value) => ({ value, words: series.tick(value) }));
    const left =
      Math.ceil(
        most(
          labels.map(({ words }) => widthOf(words, 11)),
          20,
        ),
      ) + 16;
    const right = width - 12,
      bottom = Height - Bottom;
    const step = (right - left) / Math.max(batches.length, 1);
    const x = (index) => round(left + step * (index + 0.5));
    // Leaves room for the values above cut columns.
    const top = series.stacked ? Top + 16 : Top;
    const y = (value) => round(bottom - Math.min(axis.at(value), 1) * (bottom - top));
    const at = { left, right, width, step, top, x, y };
    let taken = Infinity;
    let body = labels
      .map(({ value, words }) => {
        const line = element("line", { class: "sj-tick", x1: left, x2: right, y1: y(value), y2: y(value) });
        if (y(value) > taken - 14) return "";
        taken = y(value);
        return line + textAt(left - 8, y(value) + 4, words, { class: "sj-small sj-label", "text-anchor": "end" });
      })
      .join("");
    const chosenAt = batches.indexOf(chosen);
    if (chosenAt >= 0)
      body += element("rect", {
        class: "sj-chosen",
        x: x(chosenAt) - Math.max(step, 5) / 2,
        y: Top,
        width: Math.max(step, 5),
        height: bottom - Top,
      });
    body += series.stacked ? columns(series, at) : series.lines.map((line) => points(line, at)).join("");
    (series.late ?? []).forEach((late, index) => {
      if (late > 0)
        body += element("path", { class: "sj-late", d: `M ${x(index)} ${Top + 8} l -4 -7 h 8 Z`, "data-late": late });
    });
    if (series.trigger !== undefined && series.trigger <= axis.to)
      body += element("line", {
        class: "sj-trigger",
        x1: left,
        x2: right,
        y1: y(series.trigger),
        y2: y(series.trigger),
      });
    body += element("line", { class: "sj-axis", x1: left, x2: right, y1: bottom, y2: bottom });
    body += labelsAt(named(series, at), bottom + 16);
    body += element("line", { class: "sj-cross", y1: Top, y2: bottom, x1: -9, x2: -9 });
    const title = element("title", {}, escape(series.question));
    return svg(
      width,
      Height,
      { class: "sj-picture sj-series", "data-series": series.id, "data-left": left, "data-step": step },
      title + body,
    );
  };

  /** The names of the lines with their last values: those with their own color first, the largest values first. */
  const legend = (series) => {
    const last = (line) => (series.adds ? sum(line.values) : [...line.values].reverse().find(isNumber));
    const inOrder = series.stacked
      ? series.lines
      : [...series.lines].sort((a, b) => isOther(a) - isOther(b) || number(last(b)) - number(last(a)));
    const chips = inOrder
      .slice(0, Colors)
      .map(
        (line) =>
          `<span><i style="background:var(${line.color})"></i>` +
          `<em title="${escape(line.name)}">${escape(line.name)}</em> <b>${escape(series.say(last(line)))}</b></span>`,
      );
    if (inOrder.length > Colors) chips.push(`<span class="sj-small">and ${inOrder.length - Colors} more</span>`);
    if (series.trigger !== undefined) chips.push(`<span><i class="sj-k-trigger"></i>trigger's interval</span>`);
    return `<p class="sj-key">${chips.join("")}</p>`;
  };

  /** The values of a chart for one batch, as lines. */
  const at = (series, index) => {
    const batch = series.batches[index];
    const from = isNumber(batch.firstBatch) && batch.firstBatch !== batch.batch ? `${batch.firstBatch} to ` : "";
    const values = series.lines
      .filter((line) => isNumber(line.values[index]))
      .sort((one, other) => other.values[index] - one.values[index]);
    const lines = values
      .slice(0, 12)
      .map(
        (line) =>
          `<div><i style="background:var(${line.color})"></i>` +
          `${escape(line.name)} <b>${escape(series.say(line.values[index]))}</b></div>`,
      );
    const late =
      number(series.late?.[index]) > 0 ? `<div class="sj-of-late">${grouped(series.late[index])} late</div>` : "";
    const time = isNumber(batch.timestamp) ? instant(batch.timestamp) : "";
    return `<div><b>batch ${from}${number(batch.batch)}</b> ${escape(time)}</div>${lines.join("")}${late}`;
  };

  return { all, picture, legend, at, many, phaseColor };
})();
