// The tab "Stream joins" on Spark's web page: draws the batches of a query and, while the query's driver runs, each
// later one. Without this script, the page has the figures as a table. It is a separate file because Spark can forbid
// inline scripts.
(() => {
  "use strict";
  const INTERVAL_MS = 2000;
  /** The number of batches that are kept completely; of earlier ones, only the data for the charts is kept. */
  const WHOLE = 200;
  const place = document.getElementById("sj-plan");
  if (!place || typeof StreamJoin === "undefined" || !StreamJoin.show) return;
  const table = () => document.getElementById("sj-table");
  let batches = [],
    show;

  // The query belongs in the address, so that a reload or a link shows the same one.
  const address = new URL(location.href);
  if (!address.searchParams.has("query")) {
    address.searchParams.set("query", place.dataset.query);
    history.replaceState(history.state, "", address);
  }

  const figures = (more) => fetch(place.dataset.figures + more).then((answer) => answer.json());

  /** Later figures of a batch win, because the batch ran again. */
  const merge = (older, newer) => {
    const byBatch = new Map([...older, ...newer].map((one) => [one.batch, one]));
    const all = [...byBatch.values()].sort((one, other) => one.batch - other.batch);
    return all.map((one, at) => (at < all.length - WHOLE ? thin(one) : one));
  };
  const thin = (batch) => ({
    ...batch,
    operators: (batch.operators ?? []).map(({ hints, tasks, distances, ...operator }) => ({
      ...operator,
      inputs: (operator.inputs ?? []).map(({ hints: _, lateness, hotKeys, leaves, ...input }) => input),
    })),
  });

  const draw = () => {
    if (show) show({ batches });
    else {
      table().removeAttribute("open");
      show = StreamJoin.show(place, { batches });
    }
    place.dataset.batch = batches[batches.length - 1].batch;
    place.dataset.drawn = Number(place.dataset.drawn || 0) + 1;
  };

  /** Updates the table from the server, as in a browser without scripts, if it is open. */
  const renew = async () => {
    if (!table().open) return;
    const page = await fetch(location.href).then((answer) => answer.text());
    const next = new DOMParser().parseFromString(page, "text/html").getElementById("sj-table");
    if (next && table().open) table().replaceWith(next);
    listen();
  };
  const listen = () => table().addEventListener("toggle", renew, { once: true });

  const first = async () => {
    const [series, last] = await Promise.all([figures("&series=1").catch(() => []), figures("")]);
    // A point that represents both earlier batches and some of the complete ones wins: it includes their figures.
    const until = Math.max(-1, ...series.filter((one) => one.firstBatch < last[0]?.batch).map((one) => one.batch));
    return merge(
      series,
      last.filter((one) => one.batch > until),
    );
  };

  /** All batches since the last request. A page that slept may have missed more than are kept. */
  const later = async () => {
    const [last] = await figures("&last=1");
    const known = batches[batches.length - 1];
    if (!last || (last.batch === known.batch && last.runId === known.runId)) return undefined;
    const missed = last.batch - known.batch;
    if (missed > 50 || missed < 1) return first();
    return merge(batches, missed === 1 ? [last] : await figures(`&last=${missed}`));
  };

  const refresh = async () => {
    try {
      const found = await (batches.length === 0 ? first() : later());
      if (found?.length) {
        batches = found;
        draw();
        if (Number(place.dataset.drawn) > 1) await renew();
      }
      delete place.dataset.failed;
    } catch (failure) {
      place.dataset.failed = failure;
    }
    if (place.dataset.live === "true") setTimeout(refresh, INTERVAL_MS);
  };

  listen();
  refresh();
})();
