// The style of the charts. Their colors follow the surrounding page, which `streamjoin.js` inspects, because the
// system's dark mode does not determine the colors of a notebook or of Spark's page.
StreamJoin.css = `
.sj { --sj-text: #1f2328; --sj-muted: #59636e; --sj-paper: #ffffff; --sj-box: #f6f8fa; --sj-border: #d1d9e0;
  --sj-grid: #e4e8ec; --sj-state: #9ec5f4; --sj-watermark: #0a6b2d; --sj-limit: #b34700; --sj-complete: #edf1f4;
  --sj-hint: #fff8c5; --sj-column: #5b9bd5; --sj-other: #9aa4ae; --sj-late: #c62828;
  --sj-c0: #3b7dc4; --sj-c1: #d9730d; --sj-c2: #2d9d78; --sj-c3: #8f5bc2; --sj-c4: #c9434e; --sj-c5: #8a7a1a;
  --sj-c6: #1f9bb3; --sj-c7: #c2559d;
  color: var(--sj-text); font: 14px/1.45 ${StreamJoin.draw.Font}; text-align: left; position: relative;
  container-type: inline-size; }
.sj[data-theme="dark"] { --sj-text: #e6edf3; --sj-muted: #9da7b1; --sj-paper: #14181d; --sj-box: #1b2027;
  --sj-border: #3d444d; --sj-grid: #2b3138; --sj-state: #2f5f97; --sj-watermark: #56d07a; --sj-limit: #f5994a;
  --sj-complete: #1e242b; --sj-hint: #3b300d; --sj-column: #4a86c2; --sj-other: #6b7683; --sj-late: #ff7b72;
  --sj-c0: #6cacf0; --sj-c1: #f0954a; --sj-c2: #4cc49b; --sj-c3: #b88be8; --sj-c4: #ef7a83; --sj-c5: #cdb93f;
  --sj-c6: #4fc3d9; --sj-c7: #e388c2; }
.sj h3 { font-size: 16px; margin: 22px 0 2px; font-weight: 600; color: inherit; }
.sj p { margin: 2px 0 6px; }
.sj-note, .sj-small, .sj .sj-head { color: var(--sj-muted); fill: var(--sj-muted); font-size: 13px; }
.sj-small { font-size: 12px; }
.sj-totals { display: flex; flex-wrap: wrap; gap: 8px; margin: 8px 0; padding: 0; list-style: none; }
.sj-totals li { border: 1px solid var(--sj-border); border-radius: 6px; padding: 4px 14px 6px;
  background: var(--sj-box); }
.sj-totals b { display: block; font-size: 19px; font-weight: 600; font-variant-numeric: tabular-nums; }
.sj-totals span { color: var(--sj-muted); font-size: 12px; }
.sj-totals .sj-bad b { color: var(--sj-late); }
.sj-choose { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin: 14px 0 4px; padding: 6px 0;
  position: sticky; top: 0; background: var(--sj-page, var(--sj-paper)); z-index: 2; }
.sj-choose input { flex: 1 1 260px; min-width: 160px; accent-color: var(--sj-c0); }
.sj-choose button { font: inherit; font-size: 13px; color: inherit; background: var(--sj-box); padding: 1px 10px;
  border: 1px solid var(--sj-border); border-radius: 5px; cursor: pointer; }
.sj-answer { font-weight: 600; }
.sj-hints { list-style: none; margin: 6px 0; padding: 0; }
.sj-hint { background: var(--sj-hint); border-left: 4px solid var(--sj-limit); padding: 5px 10px; margin: 4px 0;
  overflow-wrap: anywhere; }
.sj-cells { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 580px), 1fr)); gap: 4px 32px; }
@container (min-width: 1000px) { .sj-cells.sj-four { grid-template-columns: 1fr 1fr; } }
@container (min-width: 1840px) { .sj-cells.sj-four { grid-template-columns: repeat(4, 1fr); } }
.sj-cells > div { min-width: 0; }
.sj-cell { position: relative; min-width: 0; }
.sj-picture { display: block; max-width: 100%;
  font: 12px ${StreamJoin.draw.Font}; fill: var(--sj-text); }
.sj-picture .sj-label { font-size: 11px; }
.sj-histogram .sj-label.sj-of-limit, .sj-tasks .sj-label { font-size: 12px; }
.sj-name, .sj-title { font-weight: bold; font-size: 13px; }
.sj-axis, .sj-mean { stroke: var(--sj-muted); stroke-width: 1; }
.sj-mean { stroke-dasharray: 4 3; }
.sj-tick { stroke: var(--sj-grid); stroke-width: 1; }
.sj-complete { fill: var(--sj-complete); }
.sj-state { fill: var(--sj-state); }
.sj-newest { fill: var(--sj-page, var(--sj-paper)); stroke: var(--sj-text); stroke-width: 1.5; }
.sj-watermark { stroke: var(--sj-watermark); stroke-width: 3; }
.sj-limit { fill: var(--sj-limit); stroke: var(--sj-page, var(--sj-paper)); stroke-width: 1; }
.sj-of-watermark { fill: var(--sj-watermark); }
.sj-of-limit { fill: var(--sj-limit); }
.sj-of-late { fill: var(--sj-late); color: var(--sj-late); }
.sj-waits { stroke: var(--sj-watermark); stroke-width: 1.5; stroke-dasharray: 4 3; }
.sj-line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }
.sj-late { fill: var(--sj-late); }
.sj-trigger { stroke: var(--sj-late); stroke-width: 1.5; stroke-dasharray: 6 4; }
.sj-cross { stroke: var(--sj-text); stroke-width: 1; opacity: 0.6; }
.sj-chosen { fill: var(--sj-text); opacity: 0.12; }
.sj-column { fill: var(--sj-column); }
.sj-zero { fill: var(--sj-other); }
.sj-cut { stroke: var(--sj-page, var(--sj-paper)); stroke-width: 5; }
.sj-bound { stroke: var(--sj-limit); stroke-width: 2; }
.sj-series { cursor: crosshair; }
.sj-key { display: flex; flex-wrap: wrap; gap: 2px 18px; font-size: 13px; }
.sj-key span { display: inline-flex; align-items: center; gap: 6px; white-space: nowrap; max-width: 100%; }
.sj-key em { font-style: normal; overflow: hidden; text-overflow: ellipsis; max-width: 300px; }
.sj-key i, .sj-names i, .sj-tip i { width: 12px; height: 12px; border-radius: 2px; display: inline-block; flex: none; }
.sj-key .sj-k-state { background: var(--sj-state); }
.sj-key .sj-k-newest { border: 2px solid var(--sj-text); border-radius: 50%; box-sizing: border-box; }
.sj-key .sj-k-watermark { width: 3px; border-radius: 0; height: 16px; background: var(--sj-watermark); }
.sj-key .sj-k-limit { width: 0; height: 0; border: 6px solid transparent; border-top: 0; border-radius: 0;
  border-bottom: 11px solid var(--sj-limit); }
.sj-key .sj-k-complete { background: var(--sj-complete); border: 1px solid var(--sj-border);
  border-right: 2px dashed var(--sj-watermark); box-sizing: border-box; }
.sj-key .sj-k-trigger { height: 0; border-top: 2px dashed var(--sj-late); border-radius: 0; }
.sj-wait { margin: 6px 0 12px; min-width: 0; }
.sj-wait p { margin: 0; overflow-wrap: anywhere; }
.sj-total { font-size: 16px; }
.sj-bar { display: flex; height: 16px; gap: 1px; border-radius: 3px; overflow: hidden; margin: 3px 0;
  background: var(--sj-box); }
.sj-part { min-width: 5px; flex-basis: 0; }
.sj-names { display: flex; flex-wrap: wrap; gap: 0 16px; list-style: none; margin: 0; padding: 0; font-size: 13px;
  color: var(--sj-muted); }
.sj-names li { display: inline-flex; gap: 6px; align-items: baseline; overflow-wrap: anywhere; }
.sj-names b { color: var(--sj-text); font-weight: 600; white-space: nowrap; }
.sj-names i { width: 10px; height: 10px; }
.sj-tip { position: absolute; top: 4px; pointer-events: none; background: var(--sj-box); color: var(--sj-text);
  border: 1px solid var(--sj-border); border-radius: 5px; padding: 5px 9px; font-size: 12px; z-index: 3;
  max-width: 60%; }
.sj-tip i { width: 9px; height: 9px; margin-right: 6px; }
.sj table.sj-delays { border-collapse: collapse; font-size: 13px; margin: 4px 0 10px; color: inherit; }
.sj-delays td, .sj-delays th { padding: 2px 18px 2px 0; text-align: left; font-weight: normal;
  border-bottom: 1px solid var(--sj-grid); font-variant-numeric: tabular-nums; background: none; color: inherit; }
.sj-delays th { color: var(--sj-muted); }
.sj-delays .sj-now td { font-weight: 600; color: var(--sj-limit); }
.sj-words { margin: 4px 0; padding-left: 20px; font-size: 13px; }
.sj details summary { cursor: pointer; color: var(--sj-muted); font-size: 13px; margin-top: 8px; }
.sj h4 { font-size: 13px; font-weight: 600; margin: 8px 0 0; overflow-wrap: anywhere; }
`;
