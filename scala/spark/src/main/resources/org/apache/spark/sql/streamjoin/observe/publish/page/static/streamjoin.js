// `StreamJoin.show` draws a query's figures (docs/figures.schema.json) in an element and keeps them up to date.
StreamJoin.show = (() => {
  "use strict";
  const { escape, number, list } = StreamJoin.draw;
  const { view, series } = StreamJoin;

  /** Whether the page around an element is dark, according to the first visible background behind it. */
  const themeOf = (place) => {
    for (let one = place.parentElement; one; one = one.parentElement) {
      const [red, green, blue, alpha = 1] = (getComputedStyle(one).backgroundColor.match(/[\d.]+/g) ?? []).map(
        Number,
      );
      if (alpha > 0.5 && blue !== undefined)
        return {
          theme: 0.299 * red + 0.587 * green + 0.114 * blue < 128 ? "dark" : "light",
          page: `rgb(${red},${green},${blue})`,
        };
    }
    // No element paints a background: the browser does, according to the page's color scheme.
    const scheme = getComputedStyle(document.documentElement).colorScheme;
    const dark =
      scheme.includes("dark") && (!scheme.includes("light") || matchMedia("(prefers-color-scheme: dark)").matches);
    return { theme: dark ? "dark" : "light", page: undefined };
  };

  const look = (place) => {
    const { theme, page } = themeOf(place);
    place.dataset.theme = theme;
    if (page) place.style.setProperty("--sj-page", page);
    else place.style.removeProperty("--sj-page");
  };

  /**
   * Follows the colors of the page, which a button there may change.
   *
   * @param of a weak reference, because a notebook replaces the element every few seconds, and the page outlives it
   */
  const follow = (of) => {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const again = () => {
      const place = of.deref();
      if (place?.isConnected) {
        look(place);
        return;
      }
      observer.disconnect();
      system.removeEventListener("change", again);
    };
    const observer = new MutationObserver(() => {
      again();
      setTimeout(again, 400); // a page may fade
    });
    for (const one of [document.documentElement, document.body]) observer.observe(one, { attributes: true });
    system.addEventListener("change", again);
  };

  /**
   * Draws a query in an element.
   *
   * @param data `batches`: figures and points of a series, the oldest first; `files`: sizes and numbers of files in the
   * folders of a checkpoint, by name
   * @returns a function that draws other data
   */
  return (place, data) => {
    let shown = data,
      chosen,
      drawn = [],
      width = 0;
    place.classList.add("sj");
    look(place);
    follow(new WeakRef(place));

    const drawCells = () => {
      width = place.clientWidth;
      for (const cell of place.querySelectorAll("[data-draw]")) {
        const draw = drawn[Number(cell.dataset.draw)];
        cell.innerHTML = draw(Math.max(Math.floor(cell.clientWidth), 300));
      }
    };

    const choose = (batch) => {
      chosen = batch.batch;
      draw();
    };

    const draw = () => {
      const batches = view.withBelow(list(shown.batches));
      drawn = [];
      if (batches.length === 0) {
        place.innerHTML = `<style>${StreamJoin.css}</style><p>No batch yet.</p>`;
        return;
      }
      const whole = batches.filter(view.isWhole);
      const figures = whole.find((batch) => batch.batch === chosen) ?? view.opening(batches);
      const last = batches[batches.length - 1];
      const at = Math.max(whole.indexOf(figures), 0);
      const focused = place.contains(document.activeElement) && document.activeElement?.matches(".sj-choose input");
      const opened = [...place.querySelectorAll("details")].map((one) => one.open);
      place.dataset.query = last.id ?? "";
      place.dataset.shown = figures.batch;
      place.innerHTML =
        `<style>${StreamJoin.css}</style><p class="sj-head">${escape(view.head(last))}</p>` +
        view.totals(batches) +
        view.hints(figures) +
        view.overAll(batches, figures, drawn) +
        `<div class="sj-choose"><label for="${place.id}-batch">Batch</label>` +
        `<input id="${place.id}-batch" type="range" ` +
        `min="0" max="${Math.max(whole.length - 1, 0)}" value="${at}"><b>${escape(view.named(figures))}</b>` +
        `<button type="button">last with rows</button></div>` +
        `<div class="sj-plan" data-batch="${number(figures.batch)}">${view.oneBatch(figures, drawn)}</div>` +
        view.spread(batches, drawn) +
        view.files(shown.files);
      drawCells();
      [...place.querySelectorAll("details")].forEach((one, index) => {
        if (opened[index]) one.open = true;
      });
      const slider = place.querySelector(".sj-choose input");
      slider.addEventListener("input", () => choose(whole[Number(slider.value)]));
      if (focused) slider.focus();
      place.querySelector(".sj-choose button").addEventListener("click", () => {
        chosen = undefined;
        draw();
      });
    };

    /** The chart below the pointer, and the index of the batch. */
    const under = (event) => {
      const picture = event.target.closest?.(".sj-series");
      if (!picture) return undefined;
      const one = drawn[Number(picture.parentElement.dataset.draw)].series;
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) * Number(picture.getAttribute("width"))) / box.width;
      const index = Math.floor((x - Number(picture.dataset.left)) / Number(picture.dataset.step));
      return { one, cell: picture.parentElement, index: Math.min(Math.max(index, 0), one.batches.length - 1) };
    };

    const point = (event) => {
      const found = under(event);
      for (const tip of place.querySelectorAll(".sj-tip")) tip.remove();
      for (const picture of place.querySelectorAll(".sj-series")) {
        const x = found ? Number(picture.dataset.left) + Number(picture.dataset.step) * (found.index + 0.5) : -9;
        const cross = picture.querySelector(".sj-cross");
        cross.setAttribute("x1", x);
        cross.setAttribute("x2", x);
      }
      if (!found) return;
      const tip = document.createElement("div");
      tip.className = "sj-tip";
      tip.innerHTML = series.at(found.one, found.index);
      const left = found.index < found.one.batches.length / 2;
      tip.style[left ? "right" : "left"] = "16px";
      found.cell.append(tip);
    };
    place.addEventListener("pointermove", point);
    place.addEventListener("pointerleave", point);
    place.addEventListener("click", (event) => {
      const found = under(event);
      const batch = found?.one.batches[found.index];
      if (batch && view.isWhole(batch)) choose(batch);
    });

    if (!place.id) place.id = `sj-${Math.random().toString(36).slice(2)}`;
    draw();
    new ResizeObserver(() => {
      if (place.clientWidth !== width) drawCells();
    }).observe(place);
    return (next) => {
      shown = next;
      draw();
    };
  };
})();
