// How long a row waits, and for what: bars for the bound, the delay of a watermark, and the lag of an input.
StreamJoin.waits = (() => {
  "use strict";
  const { escape, isNumber, number, list, element, duration, stack } = StreamJoin.draw;
  const { inputsOf, labelOf, limitOf, sources } = StreamJoin.holds;

  /**
   * The parts of the time that a row arriving now has to wait: the bound, the delay of a watermark, the lag of an
   * input.
   */
  const wait = (figures, operator, input) => {
    const limit = limitOf(operator, input);
    const own = list(input.columns)[0]?.newest;
    if (limit === undefined) return undefined;
    const holder = limit.of?.heldBy ?? limit.of?.input.name ?? limit.column;
    if (limit.at === undefined || !isNumber(own))
      return { holder, bound: limit.postponeMs, total: undefined, parts: [] };
    const mark = limit.of.watermark;
    const theirs = sources(figures).find((each) => each.input.name === holder)?.column.newest;
    const late = isNumber(theirs) ? Math.min(theirs, own) : own;
    const delay = Math.max(late - mark, 0),
      behind = Math.max(own - late, 0);
    const total = Math.max(own - limit.at, 0);
    const bound = Math.max(total - delay - behind, 0);
    return {
      holder,
      bound: limit.postponeMs,
      total,
      parts: [
        {
          name:
            bound < limit.postponeMs * 0.99
              ? `remainder of the bound of ${duration(limit.postponeMs)}, because its rows lag behind`
              : "the bound of the join",
          value: bound,
          words: duration(bound),
          color: "--sj-c0",
        },
        { name: `the delay of the watermark of ${holder}`, value: delay, words: duration(delay), color: "--sj-c2" },
        { name: `the lag of ${holder}`, value: behind, words: duration(behind), color: "--sj-c1" },
      ],
    };
  };

  /** All inputs that keep rows, as HTML. */
  const all = (figures) => {
    const rows = inputsOf(figures).flatMap(({ operator, input }) => {
      const one = wait(figures, operator, input);
      if (one === undefined) return [];
      const how = one.total === undefined ? "no watermark yet" : one.total === 0 ? "not at all" : duration(one.total);
      return [
        element(
          "div",
          {
            class: "sj-wait",
            "data-waits": input.name,
            "data-held-by": one.holder,
            "data-total-ms": one.total,
            "data-postpone-ms": one.bound,
          },
          `<p title="${escape(input.name)}"><b>${escape(labelOf(input))}</b> ` +
            `<span class="sj-small">${number(operator.operator)} ${escape(operator.title)}</span></p>` +
            `<p class="sj-total">${escape(how)} <span class="sj-small">for ` +
            `${escape(one.holder === input.name ? "its own watermark" : one.holder)}</span></p>` +
            (one.total ? stack(one.parts) : ""),
        ),
      ];
    });
    return rows.join("");
  };

  return { all };
})();
