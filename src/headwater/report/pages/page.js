"use strict";
// Everything from the data becomes text, never markup: names of clients come from anywhere.
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 7;

function make(parent, name, attributes, text) {
  const svg = name === "svg" || parent instanceof SVGElement;
  const found = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes || {}) found.setAttribute(key, attributes[key]);
  if (text != null) found.textContent = text;
  parent.append(found);
  return found;
}

const percent = (v) => (v > 0 && v < 0.00095 ? +(100 * v).toPrecision(2) : (100 * v).toFixed(1)) + " %";
function show(v, unit) {
  if (v == null) return "–";
  if (unit === "%") return percent(v);
  return Math.abs(v) >= 1000 ? Math.round(v).toLocaleString("en") : String(+v.toPrecision(4));
}

function tell(event, words) {
  tip.textContent = words;
  tip.style.display = "block";
  const box = tip.getBoundingClientRect();
  const right = event.clientX + 16 + box.width > innerWidth;
  tip.style.left = Math.max(4, right ? event.clientX - 16 - box.width : event.clientX + 16) + "px";
  tip.style.top = Math.min(event.clientY + 12, innerHeight - box.height - 8) + "px";
}
const hush = () => { tip.style.display = "none"; };

// About five round numbers from low to high.
function ticks(low, high) {
  const rough = (high - low) / 5 || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= rough * 0.999) * power;
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) found.push(+(k * step).toPrecision(10));
  return found;
}

// Pictures side by side: all are placed before one is drawn, as each is as wide as its place.
function charts(parent, specs, live = true) {
  const box = make(parent, "div", { class: specs.length > 1 ? "pair" : "" });
  const draws = specs.map((spec) => chart(box, spec));
  if (live) drawings.push(...draws);
  draws.forEach((draw) => draw());
  return box;
}

// One picture: lines over rounds, values where the pointer is, lines that can be switched off.
function chart(parent, spec) {
  const figure = make(parent, "figure");
  make(figure, "figcaption", {}, spec.title);
  const stage = make(figure, "div"), hidden = new Set();
  const draw = () => { stage.replaceChildren(); plot(stage, spec, hidden); };
  if (spec.series.length > 1) {
    const legend = make(figure, "div", { class: "legend" });
    spec.series.forEach((line) => {
      const button = make(legend, "button", { type: "button", "aria-pressed": "true" });
      const style = line.dash ? "dashed" : "solid";
      make(button, "span", { class: "swatch", style: `border-color: var(--c${line.colour % COLOURS}); border-top-style: ${style}` });
      button.append(line.name);
      button.onclick = () => {
        hidden.has(line) ? hidden.delete(line) : hidden.add(line);
        button.setAttribute("aria-pressed", String(!hidden.has(line)));
        draw();
      };
    });
  }
  return draw;
}
const drawings = [];
let settled;
addEventListener("resize", () => { clearTimeout(settled); settled = setTimeout(() => drawings.forEach((d) => d()), 120); });

function plot(stage, spec, hidden) {
  const lines = spec.series.filter((line) => !hidden.has(line));
  const values = lines.flatMap((l) => [...l.y, ...(l.low || []), ...(l.high || [])]).filter((v) => v != null);
  const xs = lines.flatMap((l) => l.x);
  if (!values.length) { make(stage, "p", { class: "soft" }, "nothing to show"); return; }
  let low = Math.min(...values), high = Math.max(...values);
  if (spec.zero) low = Math.min(0, low);
  const pad = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  low = spec.zero && low === 0 ? 0 : low - pad; high += pad;
  const first = Math.min(...xs), last = Math.max(Math.max(...xs), first + 1);
  const width = Math.max(300, stage.clientWidth), height = spec.height || 250, left = 58, foot = 30;
  const x = (v) => left + (width - left - 12) * (v - first) / (last - first);
  const y = (v) => 8 + (height - foot - 8) * (1 - (v - low) / (high - low));
  const svg = make(stage, "svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": spec.title });
  for (const v of ticks(low, high)) {
    make(svg, "line", { x1: left, x2: width - 12, y1: y(v), y2: y(v), class: "grid" });
    make(svg, "text", { x: left - 8, y: y(v) + 4, "text-anchor": "end" }, spec.unit === "%" ? +(100 * v).toFixed(2) + " %" : show(v));
  }
  for (const v of ticks(first, last).filter(Number.isInteger))
    make(svg, "text", { x: x(v), y: height - foot + 18, "text-anchor": "middle" }, v.toLocaleString("en"));
  make(svg, "text", { x: left - 8, y: height - foot + 18, "text-anchor": "end" }, spec.axis || "round");
  for (const line of lines) {
    const colour = `var(--c${line.colour % COLOURS})`;
    if (line.low) make(svg, "path", { d: band(line, x, y), fill: colour, "fill-opacity": 0.12 });
    make(svg, "path", { d: path(line, x, y), fill: "none", stroke: colour, "stroke-width": 2, "stroke-linejoin": "round",
                        "stroke-dasharray": line.dash ? "5 4" : "none", class: "curve" });
  }
  const cross = make(svg, "line", { y1: 8, y2: height - foot, class: "cross" });
  const all = [...new Set(xs)].sort((a, b) => a - b);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const at = first + ((event.clientX - box.left) * width / box.width - left) / (width - left - 12) * (last - first);
    const near = all.reduce((a, b) => (Math.abs(b - at) < Math.abs(a - at) ? b : a));
    cross.setAttribute("x1", x(near)); cross.setAttribute("x2", x(near)); cross.style.visibility = "visible";
    const found = lines.map((l) => [l, l.y[l.x.indexOf(near)]]).filter(([, v]) => v != null).sort((a, b) => b[1] - a[1]);
    tell(event, [`${spec.axis || "round"} ${near.toLocaleString("en")}`, ...found.map(([l, v]) => `${l.name}: ${show(v, spec.unit)}`)].join("\n"));
  });
  svg.addEventListener("pointerleave", () => { hush(); cross.style.visibility = "hidden"; });
}

function path(line, x, y) {
  let d = "", pen = "M";
  line.x.forEach((v, k) => {
    if (line.y[k] == null) { pen = "M"; return; }
    d += `${pen}${x(v).toFixed(1)},${y(line.y[k]).toFixed(1)}`; pen = "L";
  });
  return d;
}

function band(line, x, y) {
  const there = line.x.map((v, k) => [v, line.low[k], line.high[k]]).filter(([, a, b]) => a != null && b != null);
  const up = there.map(([v, , b]) => `${x(v).toFixed(1)},${y(b).toFixed(1)}`);
  const down = there.reverse().map(([v, a]) => `${x(v).toFixed(1)},${y(a).toFixed(1)}`);
  return "M" + [...up, ...down].join("L") + "Z";
}

// The ledger: what is in the memories, what it counts, client by client.
function ledger(parent, views) {
  let view = views[0], what = "held", client = null;
  make(parent, "h2", {}, "Who holds what, and counts how much");
  make(parent, "p", { class: "soft" }, data.about_ledger);
  const top = make(parent, "div", { class: "choice" }), body = make(parent, "div");
  if (views.length > 1) {
    const select = make(top, "select", { "aria-label": "strategy" });
    views.forEach((v, k) => make(select, "option", { value: k }, v.name));
    select.onchange = () => { view = views[select.value]; render(); };
    const named = decodeURIComponent((location.hash.match(/line=([^&]*)/) || [])[1] || "");
    const wanted = views.findIndex((v) => v.name === named);
    if (wanted > 0) { view = views[wanted]; select.value = wanted; }
  }
  for (const [key, words] of [["held", "memory"], ["shares", "share of the round"]]) {
    const button = make(top, "button", { type: "button", "aria-pressed": String(key === what) }, words);
    button.onclick = () => {
      what = key;
      top.querySelectorAll("button").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
      render();
    };
  }
  const asked = (location.hash.match(/client=(\d+)/) || [])[1];
  if (asked != null) client = Number(asked);
  const choose = (number) => { client = client === number ? null : number; render(); };
  function render() {
    body.replaceChildren();
    heat(body, view, what, client, choose);
    const line = view.lines.find((l) => l.number === client);
    if (line) detail(body, view, line);
    charts(body, [
      { title: "Effective samples of a round, N_eff(t)", zero: true, height: 190,
        series: [{ name: "N_eff", x: view.rounds, y: view.effective, colour: 2 }] },
      { title: "What historical clients count together, p_hist(t)", zero: true, unit: "%", height: 190,
        series: [{ name: "historical", x: view.rounds, y: view.historical, colour: 0 }] },
    ], false);
    people(body, view, client, choose);
  }
  render();
  drawings.push(render);
}

function heat(parent, view, what, client, choose) {
  const figure = make(parent, "figure"), many = view.lines.length < view.clients;
  const words = what === "held" ? "How full each client's memory is (its fullest is the darkest)" : "What each client counts (the most of all is the darkest)";
  make(figure, "figcaption", {}, words + ", from round 1 to " + view.last.toLocaleString("en") + "; historical clients are blue, streams orange"
       + (many ? `; ${view.lines.length} of ${view.clients.toLocaleString("en")} clients: those who count most, those with the worst tests, others evenly` : "") + ".");
  const high = view.lines.length > 24 ? 13 : 18, label = 130, width = Math.max(320, figure.clientWidth), wide = (width - label) / view.rounds.length;
  const height = high * view.lines.length;
  const svg = make(figure, "svg", { viewBox: `0 0 ${width} ${height + 20}`, height: height + 20, role: "group", "aria-label": words });
  make(svg, "text", { x: label - 10, y: height + 15, "text-anchor": "end" }, "round");
  for (const v of ticks(1, Math.max(view.last, 2)).filter(Number.isInteger))
    make(svg, "text", { x: label + (width - label) * (v - 0.5) / view.last, y: height + 15, "text-anchor": "middle" }, v.toLocaleString("en"));
  const most = Math.max(...view.lines.flatMap((l) => l.shares), 1e-12);
  view.lines.forEach((line, k) => {
    const row = make(svg, "g", { class: "row" + (line.number === client ? " chosen" : ""), tabindex: 0, role: "button", "aria-label": line.name });
    make(row, "rect", { x: 0, y: k * high, width, height: high, fill: "transparent" });
    make(row, "text", { x: label - 10, y: k * high + high - 4.5, "text-anchor": "end" }, line.name.length > 18 ? line.name.slice(0, 17) + "…" : line.name);
    const full = what === "held" ? Math.max(...line.held, 1) : most;
    runs(line[what]).forEach(([from, to, value]) => value > 0 && make(row, "rect", {
      x: (label + from * wide).toFixed(2), y: k * high + 1, width: ((to - from) * wide + 0.3).toFixed(2), height: high - 3,
      fill: line.historical ? "var(--old)" : "var(--new)", "fill-opacity": (0.12 + 0.88 * value / full).toFixed(3) }));
    row.onclick = () => choose(line.number);
    row.onkeydown = (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(line.number); } };
    row.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), place = Math.floor(((event.clientX - box.left) * width / box.width - label) / wide);
      const at = Math.min(Math.max(place, 0), view.rounds.length - 1);
      tell(event, `${line.name}\nround ${view.rounds[at].toLocaleString("en")}: holds ${line.held[at].toLocaleString("en")}, counts ${percent(line.shares[at])}`);
    });
    row.addEventListener("pointerleave", hush);
  });
}

// Stretches of equal numbers: one rectangle for as long as nothing changes.
function runs(values) {
  const found = [];
  values.forEach((v, k) => { const before = found[found.length - 1]; before && before[2] === v ? (before[1] = k + 1) : found.push([k, k + 1, v]); });
  return found;
}

function detail(parent, view, line) {
  const colour = line.historical ? 0 : 1;
  const box = charts(parent, [
    { title: line.name + ": samples in memory", zero: true, height: 170,
      series: [{ name: "held", x: view.rounds, y: line.held, colour }] },
    { title: line.name + ": share of the round", zero: true, unit: "%", height: 170,
      series: [{ name: "share", x: view.rounds, y: line.shares, colour }] },
  ], false);
  box.id = "chosen";
}

function people(parent, view, client, choose) {
  make(parent, "h2", {}, "Clients");
  const tested = Object.keys(view.tested.shown || {}), ranked = view.tested.leading;
  if (ranked) {
    const values = view.tested.ranked[ranked], unit = data.units[ranked];
    const x = values.map((_, k) => Math.round(k * (view.clients - 1) / Math.max(values.length - 1, 1)) + 1);
    const word = data.words[ranked] || ranked, mean = show(view.tested.mean[ranked], unit);
    const title = `${word} of each client in the last test, from worst to best (mean ${mean}, worst tenth ${show(view.tested.worst[ranked], unit)})`;
    charts(parent, [{ title, unit, height: 170, axis: "client", series: [{ name: word, x, y: values, colour: 2 }] }], false);
  }
  const table = make(make(parent, "div", { class: "wide" }), "table");
  const head = make(make(table, "thead"), "tr"), body = make(table, "tbody");
  for (const word of ["Client", "", "Samples", "Importance p_m", ...tested.map((n) => data.words[n] || n)]) make(head, "th", {}, word);
  const most = Math.max(...view.lines.map((l) => l.importance), 1e-12), worst = new Set((view.tested.worst_clients || []).slice(0, Math.ceil(view.clients / 10)));
  view.lines.forEach((line, k) => {
    const row = make(body, "tr", { class: "pick" + (line.number === client ? " chosen" : "") });
    make(row, "td", {}, line.name);
    make(row, "td", { class: "soft" }, (line.historical ? "historical" : "stream") + (worst.has(line.number) ? " · worst tenth" : ""));
    make(row, "td", {}, line.samples.toLocaleString("en"));
    const cell = make(row, "td", {}, percent(line.importance));
    make(cell, "span", { class: "bar", style: `width: ${(4 * line.importance / most).toFixed(2)}rem; margin-right: ${(4 - 4 * line.importance / most).toFixed(2)}rem; background: ${line.historical ? "var(--old)" : "var(--new)"}` });
    tested.forEach((n) => make(row, "td", {}, show(view.tested.shown[n][k], data.units[n])));
    row.onclick = () => choose(line.number);
  });
}

const curves = document.getElementById("curves");
if (data.charts.length) {
  make(curves, "h2", {}, data.about_charts);
  charts(curves, data.charts);
}
if (data.ledgers.length) ledger(document.getElementById("ledger"), data.ledgers);
