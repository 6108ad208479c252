// The parts of a query's page: totals, one batch, and charts over all batches. `StreamJoin.show` draws them in an
// element, and redraws them when the element's width or the page's colors change.
StreamJoin.view = (() => {
  "use strict";
  const { escape, isNumber, number, list, sum, element, grouped, count, bytes, duration, instant, hintsOf, stack } =
    StreamJoin.draw;
  const { holds, waits, series, histograms } = StreamJoin;

  const rowsIn = (batch) => sum(holds.inputsOf(batch).map(({ input }) => input.rowsIn));
  /** Whether it is a single batch, as opposed to a point with the sums of several. */
  const isWhole = (batch) =>
    series.many(batch) === 1 && list(batch.operators).every((one) => Array.isArray(one.tasks?.rows));

  /** The batch that a page shows first: the last one with rows, because the very last one is often empty. */
  const opening = (batches) => {
    const whole = batches.filter(isWhole);
    return (
      whole.findLast((batch) => sourceRows(batch) > 0) ??
      whole.findLast((batch) => rowsIn(batch) > 0) ??
      whole[whole.length - 1] ??
      batches[batches.length - 1]
    );
  };

  /** Rows read from sources: rows that one join passes to the next count once. */
  const sourceRows = (batch) =>
    sum(
      holds
        .inputsOf(batch)
        .filter(({ input }) => !list(input.below).length)
        .map(({ input }) => input.rowsIn),
    );
  /** The output of the topmost operators, which are below no other one. */
  const emitted = (batch, field) => {
    const below = new Set(holds.inputsOf(batch).flatMap(({ input }) => list(input.below)));
    return sum(
      list(batch.operators)
        .filter((one) => !below.has(one.operator))
        .map((one) => one[field]),
    );
  };
  /** A point of a series may lack this information: its operators are listed from the output down. */
  const hasBelow = (batch) => holds.inputsOf(batch).some(({ input }) => Array.isArray(input.below));
  const withBelow = (batches) => {
    const known = batches.findLast(hasBelow);
    if (!known) return batches;
    const below = new Map(
      holds
        .inputsOf(known)
        .map(({ operator, input }) => [`${operator.operator} ${input.side} ${input.name}`, input.below]),
    );
    return batches.map((batch) =>
      hasBelow(batch)
        ? batch
        : {
            ...batch,
            operators: list(batch.operators).map((one) => ({
              ...one,
              inputs: list(one.inputs).map((input) => ({
                ...input,
                below: below.get(`${one.operator} ${input.side} ${input.name}`),
              })),
            })),
          },
    );
  };

  const totals = (batches) => {
    const last = batches[batches.length - 1];
    const operators = (name) => sum(batches.map((batch) => sum(list(batch.operators).map((one) => one[name]))));
    const late = operators("late");
    const padded = sum(batches.map((batch) => emitted(batch, "padded")));
    const kept = sum(list(last.operators).map((one) => one.rowsKept));
    const took = sum(batches.map((batch) => number(batch.phasesMs?.triggerExecution)));
    const tiles = [
      [grouped(sum(batches.map(series.many))), "batches", "batches"],
      [grouped(sum(batches.map(sourceRows))), "rows in", "rowsIn"],
      [
        grouped(sum(batches.map((batch) => emitted(batch, "rowsOut")))),
        padded > 0 ? `rows out, ${grouped(padded)} without a match` : "rows out",
        "rowsOut",
      ],
      [grouped(late), "rows late", "late", late > 0 ? "sj-bad" : undefined],
      [grouped(kept), `rows kept now, ${bytes(sum(list(last.operators).map((one) => one.bytesKept)))}`, "rowsKept"],
      [
        duration(took),
        batches.every((batch) => series.many(batch) === 1) ? "in batches" : "in batches, at most",
        "ms",
      ],
    ];
    const items = tiles.map(([value, name, key, kind]) =>
      element(
        "li",
        { class: kind, "data-total": key, "data-value": value },
        `<b>${escape(value)}</b><span>${escape(name)}</span>`,
      ),
    );
    return `<ul class="sj-totals">${items.join("")}</ul>`;
  };

  const colorAt = (at) => `--sj-c${at % 8}`;
  /** The time of a batch by phase, and that of its tasks. */
  const phases = (figures) => {
    const ofTasks = [...new Set(list(figures.operators).flatMap((one) => Object.keys(one.phasesMs ?? {})))].sort();
    const parts = (of, color) =>
      Object.entries(of ?? {})
        .filter(([name, millis]) => name !== "triggerExecution" && number(millis) > 0)
        .sort(([, one], [, other]) => other - one)
        .map(([name, millis]) => ({ name, value: millis, words: `${grouped(millis)} ms`, color: color(name) }));
    const took = figures.phasesMs?.triggerExecution;
    const batch =
      `<h4>The batch${isNumber(took) ? `: ${grouped(took)} ms` : ""}</h4>` +
      stack(parts(figures.phasesMs, series.phaseColor), { "data-phases": "batch" });
    const tasks = list(figures.operators)
      .map((one) => ({ one, of: parts(one.phasesMs, (name) => colorAt(ofTasks.indexOf(name))) }))
      .filter(({ of }) => of.length > 0)
      .map(
        ({ one, of }) =>
          `<div><h4>${number(one.operator)} ${escape(one.title)}, all tasks together: ` +
          `${grouped(sum(of.map((part) => part.value)))} ms</h4>${stack(of, { "data-phases": one.operator })}</div>`,
      );
    return batch + `<div class="sj-cells">${tasks.join("")}</div>`;
  };

  const hotKeys = (input) => {
    const hottest = list(input.hotKeys)[0];
    if (hottest === undefined) return "";
    const share = Math.round(number(hottest.share) * 100);
    return (
      " " +
      element("span", { class: "sj-hot", "data-share": hottest.share }, escape(`One key has ${share} % of its rows.`))
    );
  };

  const sentences = (figures) => {
    const items = holds
      .inputsOf(figures)
      .map(({ operator, input }) =>
        element(
          "li",
          { class: "sj-keeps", "data-input": input.name, "data-waits-for": input.leavesBy },
          escape(holds.words(operator, input)) + hotKeys(input),
        ),
      );
    const operators = list(figures.operators).map((one) =>
      element(
        "li",
        {
          "data-operator": one.operator,
          "data-kind": one.kind,
          "data-rows-kept": one.rowsKept,
          "data-rows-out": one.rowsOut,
        },
        escape(
          `${one.operator} ${one.title}: ${count(one.rowsOut, "row")} out, ${count(one.rowsKept, "row")} kept ` +
            `(${bytes(one.bytesKept)}, index ${bytes(one.memoryBytes)})` +
            (number(one.padded) > 0 ? `, ${grouped(one.padded)} without a match` : "") +
            (number(one.late) > 0 ? `, ${grouped(one.late)} late` : ""),
        ),
      ),
    );
    const all = [...operators, ...items].join("");
    return `<details><summary>In words</summary><ul class="sj-words">${all}</ul></details>`;
  };

  /** A chart that is drawn once the width of its container is known. */
  const cell = (drawn, draw) => {
    drawn.push(draw);
    return `<div class="sj-cell" data-draw="${drawn.length - 1}"></div>`;
  };

  const section = (id, question, inside) =>
    element("section", { "data-question": id }, `<h3>${escape(question)}</h3>${inside}`);

  const charts = (drawn, id, question, note, all) =>
    all.length === 0
      ? ""
      : section(
          id,
          question,
          (note ? `<p class="sj-note">${escape(note)}</p>` : "") +
            `<div class="sj-cells">` +
            all.map((one) => `<div><h4>${escape(one.of)}</h4>${cell(drawn, one.draw)}${one.more}</div>`).join("") +
            `</div>`,
        );

  const oneBatch = (figures, drawn) => {
    const waiting = waits.all(figures);
    return (
      section(
        "holds",
        "What holds the output back?",
        element("p", { class: "sj-answer" }, escape(holds.answer(figures))) +
          holds.key +
          cell(drawn, (width) => holds.picture(figures, width)) +
          sentences(figures),
      ) +
      (waiting === ""
        ? ""
        : section(
            "waits",
            "How long does a row wait?",
            `<p class="sj-note">How long the newest row will stay in state. An outer join then emits it unless it ` +
              `has matched.</p><div class="sj-cells">${waiting}</div>`,
          )) +
      section("time", "Where does this batch spend its time?", phases(figures)) +
      charts(
        drawn,
        "skew",
        "Does one task do most of the work?",
        "A task with most of the rows has a frequent key.",
        histograms.skew(figures),
      )
    );
  };

  const hints = (figures) =>
    hintsOf(
      list(figures.operators).flatMap((one) => [
        ...list(one.hints),
        ...list(one.inputs).flatMap((input) => list(input.hints)),
      ]),
    );

  const overAll = (batches, chosen, drawn) => {
    const shown = series.all(batches).map(
      (one) =>
        `<div data-question="${one.id}"><h3>${escape(one.question)}</h3>` +
        `<p class="sj-note">${escape(one.note)}</p>` +
        cell(
          drawn,
          Object.assign((width) => series.picture(one, width, chosen), { series: one }),
        ) +
        series.legend(one) +
        `</div>`,
    );
    return `<div class="sj-cells sj-four">${shown.join("")}</div>`;
  };

  const spread = (batches, drawn) =>
    charts(
      drawn,
      "lateness",
      "How late are rows, and what delay would keep them?",
      "How far rows are behind the newest row of earlier batches. Rows beyond the delay of the watermark are late." +
        histograms.notBehind(batches),
      histograms.lateCharts(batches),
    ) +
    charts(
      drawn,
      "distances",
      "How far apart are matches, and is the bound much wider?",
      "If the bound is much wider than the matches need, rows are kept for longer than necessary.",
      histograms.distanceCharts(batches),
    );

  const files = (all) => {
    const folders = Object.entries(all ?? {}).sort(([, one], [, other]) => other.bytes - one.bytes);
    if (folders.length === 0) return "";
    const parts = (name, say) =>
      folders.map(([folder, of], at) => ({
        name: folder,
        value: of[name],
        words: say(of[name]),
        color: colorAt(at),
      }));
    const heading = (name, say) => `<h4>${say(sum(folders.map(([, of]) => of[name])))}</h4>`;
    const amounts = [
      ["bytes", bytes],
      ["files", (many) => count(many, "file")],
    ];
    return section(
      "files",
      "What does the checkpoint hold?",
      amounts.map(([name, say]) => heading(name, say) + stack(parts(name, say), { "data-files": name })).join(""),
    );
  };

  const head = (last) =>
    [
      ...(isNumber(last.timestamp) ? [`last batch ${number(last.batch)} at ${instant(last.timestamp)} UTC`] : []),
      ...(number(last.triggerMs) > 0 ? [`one every ${duration(last.triggerMs)}`] : []),
    ].join(", ");

  const named = (figures) => {
    const took = figures.phasesMs?.triggerExecution;
    return [
      `batch ${number(figures.batch)}`,
      ...(isNumber(figures.timestamp) ? [instant(figures.timestamp)] : []),
      count(rowsIn(figures), "row"),
      ...(isNumber(took) ? [`${grouped(took)} ms`] : []),
    ].join(", ");
  };

  return { isWhole, opening, withBelow, totals, hints, oneBatch, overAll, spread, files, head, named };
})();
