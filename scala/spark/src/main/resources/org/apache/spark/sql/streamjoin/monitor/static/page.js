// The tab "Stream joins" of Spark's web page: draws the last batch of a query with streamjoin.js, and
// while the query's driver runs, each later one. Without it the page has the figures as a table. It
// is a file, as Spark can forbid scripts within a page.
(function () {
  "use strict";
  var INTERVAL_MS = 2000;
  var place = document.getElementById("sj-plan");
  if (!place || typeof StreamJoin === "undefined") return;
  var shown = null;

  function draw(figures) {
    if (shown === null) document.getElementById("sj-table").removeAttribute("open");
    shown = figures.runId + "/" + figures.batch;
    place.innerHTML = StreamJoin.plan(figures);
    place.dataset.batch = figures.batch;
    place.dataset.drawn = Number(place.dataset.drawn || 0) + 1;
  }

  // The table comes from the server, as in a browser without scripts.
  function table() {
    return fetch(location.href)
      .then(function (answer) { return answer.text(); })
      .then(function (page) {
        var there = document.getElementById("sj-table");
        var next = new DOMParser().parseFromString(page, "text/html").getElementById("sj-table");
        if (!next) return;
        if (!there.open) next.removeAttribute("open");
        there.replaceWith(next);
      });
  }

  function refresh() {
    return fetch(place.dataset.figures)
      .then(function (answer) { return answer.json(); })
      .then(function (batches) {
        var last = batches[batches.length - 1];
        if (!last || shown === last.runId + "/" + last.batch) return undefined;
        var first = shown === null;
        draw(last);
        return first ? undefined : table();
      })
      .then(function () { delete place.dataset.failed; }, function (failure) { place.dataset.failed = failure; })
      .then(function () { if (place.dataset.live === "true") setTimeout(refresh, INTERVAL_MS); });
  }

  refresh();
})();
