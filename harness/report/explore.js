"use strict";
/** @typedef {{begin: number, end: number, state: number, process: number, job: number, peer: number, blocks: boolean, lane: number,
 *   done: number}} Row of a processor (harness/analyse/timelines.py); times in ns; done is the computing before it */
/** @typedef {{name: string, lanes: Row[][], runs: Row[][], panel: number, measured: boolean, part: (query: string) => HTMLElement}} Side
 *   a run on the page; runs are the rows in which each process has a processor; part finds an element of it */
/** @typedef {{side: Side, lane: number, home: number, process: number, job: number, peer: number, asks: number, goes: number, wakes: number,
 *   spun: number, vain: boolean, turns: {leaves: number, blocks: boolean, returns: number, again: boolean}[], root: number, free: number,
 *   last: number}} Wait of a process, for the peer that it reads from or, without, at a barrier; it loses its processor for so many turns.
 *   The request goes to the lane root; the message that ends the wait comes from the lane last, which is free for it since then */
const data = JSON.parse(document.getElementById("data").textContent);
const [COMPUTING, SPINNING, IN_VAIN, SWITCHING] = [0, 1, 2, 3], STATES = Object.keys(data.looks), TWO_PHASE = 1;
const LANE = data.runs[0].lanes.length > 8 ? 14 : 34, STRIPE = LANE / 5, SHORTEST = 2000, END = data.window;
const $ = (/** @type {string} */ id) => document.getElementById(id), choice = [...data.own], sliders = Object.values(data.sliders);
const inputs = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("#sliders input")]);
let view = {begin: 0, end: END}, now = END, playing = false, timer = 0, /** @type {Wait|null} */ wait = null, vainly = true;
/** @type {Side[]} */ let sides = [];
const ms = (time) => `${(time / 1e6).toFixed(view.end - view.begin < 5e6 ? 4 : 1)} ms`;
const within = (least, value, most) => Math.max(least, Math.min(most, value));

/** @param {number} run @returns {Row[][]} its lanes */
function lanesOf(run) {
  return data.runs[run].lanes.map(([lengths, codes], lane) => {
    let end = 0, done = 0;
    return codes.map((code, n) => {
      const begin = end, state = code % STATES.length, who = Math.floor(code / STATES.length);
      const process = who % data.processes.length, waits = Math.floor(who / data.processes.length);
      end += lengths[n];
      const row = {begin, end, state, process, job: data.processes[process][0], peer: (waits >> 1) - 1, blocks: waits % 2 === 1, lane, done};
      if (state === COMPUTING) done += end - begin;
      return row;
    });
  });
}

/** The number of the row in force at a time. @param {Row[]} lane @param {number} time @returns {number} */
function rowAt(lane, time) {
  let low = 0, high = lane.length;
  while (high - low > 1) { const middle = (low + high) >> 1; if (lane[middle].begin <= time) low = middle; else high = middle; }
  return low;
}

/** Makes the sides of each panel for the present values of the sliders. */
function choose() {
  const [g, v, quantum, spin] = choice, [, imbalances, quanta, spins] = sliders.map((one) => one.length);
  const first = (g * imbalances + v) * (1 + spins + quanta), count = data.runs.length - data.measured.length;
  sides = [];
  document.querySelectorAll("#panels article").forEach((article, panel) => {
    const wanted = [first + [0, 1 + spin, 1 + spins + quantum][panel]];
    if (g === data.own[0] && v === data.own[1] && data.measured.includes(panel)) wanted.push(count + data.measured.indexOf(panel));
    article.replaceChildren(article.firstElementChild, ...wanted.map((run) => {
      const made = /** @type {Element} */ (/** @type {HTMLTemplateElement} */ ($("side")).content.firstElementChild.cloneNode(true));
      const part = (query) => made.querySelector(query), measured = run >= count, {name, failure} = data.runs[run];
      const told = `${measured ? "measured" : "simulated"}: ${name}${failure && ` (${failure})`}`;
      const lanes = lanesOf(run), rows = lanes.flat().filter((row) => row.state <= SWITCHING).sort((a, b) => a.begin - b.begin);
      const runs = data.processes.map((_, process) => rows.filter((row) => row.process === process));
      const side = {name: told, lanes, runs, panel, measured, part};
      part(".stage").addEventListener("click", (event) => {
        const place = part("canvas").getBoundingClientRect(), lane = Math.floor((event.clientY - place.top) / LANE);
        const time = view.begin + (event.clientX - place.left) / place.width * (view.end - view.begin);
        const near = waitsOf(side).find((one) => one.lane === lane && one.asks <= time && time < one.goes);
        if (near) look(near); else go(time);
      });
      sides.push(side);
      return made;
    }));
  });
  wait = null;
  $("wait").textContent = "";
  draw();
}

/** Draws all lanes, and the arrows of the chosen wait. */
function draw() {
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const looks = Object.values(data.looks).map(([name, share]) => [colour(name), share]), jobs = [0, 1, 2, 3, 4, 5].map((n) => colour(`job${n}`));
  for (const {lanes, part} of sides) {
    const canvas = part("canvas"), paint = canvas.getContext("2d"), [width, height] = [canvas.clientWidth, lanes.length * LANE];
    [canvas.width, canvas.height, canvas.style.height] = [width * devicePixelRatio, height * devicePixelRatio, `${height}px`];
    paint.scale(devicePixelRatio, devicePixelRatio);
    const across = (time) => (time - view.begin) / (view.end - view.begin) * width, middle = (lane) => (lane + 0.5) * LANE;
    lanes.forEach((lane, n) => {
      const floor = (n + 1) * LANE - STRIPE - 2, wide = width / canvas.width;
      for (let x = 0; x < width; x += wide) { // a column of pixels has one state: thinner rows would mix their colours
        const {state, job} = lane[rowAt(lane, view.begin + (x + wide / 2) / width * (view.end - view.begin))], [fill, share] = looks[state];
        const tall = (LANE - STRIPE - 4) * share;
        paint.fillStyle = fill;
        paint.fillRect(x, floor - tall, wide, tall);
        paint.fillStyle = jobs[job % jobs.length];
        if (state <= SWITCHING) paint.fillRect(x, floor + 1, wide, STRIPE);
      }
    });
    paint.strokeStyle = colour("ink");
    if (!wait || wait.side.lanes !== lanes) continue;
    if (wait.root !== wait.lane) arrow(paint, across(wait.asks), middle(wait.lane), across(wait.asks) + 8, middle(wait.root));
    if (wait.last >= 0) arrow(paint, across(wait.free), middle(wait.last), across(wait.wakes), middle(wait.home));
  }
  show();
}

/** @param {CanvasRenderingContext2D} paint @param {number} x @param {number} y @param {number} toX @param {number} toY */
function arrow(paint, x, y, toX, toY) {
  const angle = Math.atan2(toY - y, toX - x);
  paint.beginPath();
  for (const [from, to] of [[x, y], ...[-0.4, 0.4].map((turn) => [toX - 7 * Math.cos(angle + turn), toY - 7 * Math.sin(angle + turn)])]) {
    paint.moveTo(from, to);
    paint.lineTo(toX, toY);
  }
  paint.stroke();
}

/** Shows the present: the curtain, the useful work so far, and what each processor does. */
function show() {
  $("time").textContent = `${ms(now)}; from ${ms(view.begin)} to ${ms(view.end)}`;
  for (const {name, lanes, part} of sides) {
    part(".curtain").style.left = `${within(0, (now - view.begin) / (view.end - view.begin), 1) * 100}%`;
    const rows = lanes.map((lane) => lane[rowAt(lane, Math.min(now, END - 1))]);
    const work = rows.reduce((sum, {begin, state, done}) => sum + done + (state === COMPUTING ? now - begin : 0), 0);
    const each = rows.map(({state, job}, n) => `processor ${n}: ${state > SWITCHING ? "" : `job ${job} `}${STATES[state]}`);
    const counts = STATES.map((name, n) => [rows.filter((row) => row.state === n).length, name]).filter(([count]) => count);
    const share = now ? ` (${(100 * work / now / lanes.length).toFixed(0)}\u00a0%)` : "";
    part("p").textContent = `${name}. Useful work so far: ${(work / 1e6).toFixed(1)} ms${share}`;
    part(".now").textContent = lanes.length <= 4 ? each.join("; ") : counts.map((one) => one.join(" ")).join(", ");
    part("canvas").setAttribute("aria-label", `${name} at ${ms(now)}: ${part(".now").textContent}`);
  }
}

/** Shows another part of the window. @param {number} begin @param {number} span */
function see(begin, span) {
  const long = within(SHORTEST, span, END), from = within(0, begin, END - long);
  view = {begin: from, end: from + long};
  draw();
}

/** Goes to a time, and moves the view if it is out of sight. @param {number} time */
function go(time) {
  now = within(0, time, END);
  if (view.begin <= now && now <= view.end) show(); else see(now - (view.end - view.begin) / 2, view.end - view.begin);
}

/** @param {number} factor of the length of the view; the present keeps its place */
const zoom = (factor) => see(now - (now - view.begin) * factor, (view.end - view.begin) * factor);

/** Goes to the nearest change of a lane, at least a hundredth of the view away. @param {1|-1} way */
function step(way) {
  const from = now + way * (view.end - view.begin) / 100, rows = sides.flatMap(({lanes}) => lanes.map((lane) => lane[rowAt(lane, from)]));
  playing = false;
  go(way > 0 ? Math.min(...rows.map((row) => row.end)) : from < 0 ? 0 : Math.max(...rows.map((row) => row.begin)));
}

/** @param {Side} side @returns {Wait[]} all waits that end in the window */
function waitsOf(side) {
  return side.runs.flatMap((rows) => {
    const found = [];
    let one = null;
    for (const [n, {begin, end, state, process, job, peer, blocks, lane}] of rows.entries()) {
      const spins = state === SPINNING || state === IN_VAIN, last = one?.turns.at(-1), next = rows[n + 1];
      if (one && (state === COMPUTING || spins && peer !== one.peer)) {
        const wakes = last && !last.again ? last.returns : begin; // where it does not spin again, its message was there
        found.push({...one, home: lane, goes: begin, wakes, ...partner(one, wakes)});
        one = null;
      }
      if (spins || state === COMPUTING && blocks)
        one ||= {side, lane, process, job, peer, asks: spins ? begin : end, spun: 0, vain: false, turns: []};
      if (!one) continue;
      [one.spun, one.vain] = [one.spun + (spins ? end - begin : 0), one.vain || state === IN_VAIN];
      if (last) last.again ||= spins;
      if (next && (next.begin > end || next.lane !== lane)) one.turns.push({leaves: end, blocks, returns: next.begin, again: false});
    }
    return found;
  });
}

/** Whom a process asks, and when and where the message that ends its wait could leave. @param {Wait} wait @param {number} before */
function partner({side, lane, process, job, peer, asks}, before) {
  if (peer >= 0) { // the first time that it runs and does not compute, if there is one
    const there = side.runs[process - data.processes[process][1] + peer].filter((row) => row.begin < before && row.end > asks && row.state < SWITCHING);
    const one = there.find((row) => row.state !== COMPUTING) || there[0];
    return !one || one.process === process ? {root: lane, free: -1, last: -1} : {root: one.lane, free: Math.max(asks, one.begin), last: one.lane};
  }
  const others = side.runs.filter((rows, other) => other !== process && data.processes[other][0] === job);
  const came = others.flatMap((rows) => rows.findLast((row) => row.end <= before && (row.state === COMPUTING || row.peer >= 0)) || []);
  const late = came.reduce((one, two) => two.end > one.end ? two : one, {end: asks, lane: -1}); // all must have come to the barrier
  return {root: came.length ? came[0].lane : lane, free: late.end, last: late.lane};
}

/** Zooms to one wait, and tells of it. @param {Wait} one */
function look(one) {
  const room = Math.max(SHORTEST, (one.goes - one.asks) * 0.4), begin = Math.max(0, one.asks - room), reads = one.peer >= 0;
  [wait, playing, now] = [one, false, Math.min(END, one.goes + room)];
  see(begin, now - begin);
  const whom = !reads ? "all partners" : one.root === one.home ? "itself" : `process ${one.peer}`;
  const told = one.turns.flatMap(({leaves, blocks, returns}) =>
    [[leaves, blocks ? "it blocks" : "its time slice ends"], [returns, "it has its processor again"]]);
  if (one.last >= 0) told.push([one.free, reads ? "its partner can answer" : "the last partner arrives", one.last]);
  $("wait").textContent = `${[
    `${one.side.name}: job ${one.job} asks ${whom} at ${ms(one.asks)} on processor ${one.lane}`,
    `it spins for ${(one.spun / 1e3).toFixed(1)} us, for ${one.vain ? "a partner that is not running" : "partners that run"}`,
    ...told.sort((a, b) => a[0] - b[0]).map(([time, what, place]) => `${what} at ${ms(time)}${place === undefined ? "" : ` on processor ${place}`}`),
    `it goes on at ${ms(one.goes)}`,
  ].join("; ")}.`;
}

/** Looks at the wait of any side that is right and comes first by a measure.
 *  @param {(one: Wait) => boolean} right @param {(one: Wait) => number} measure */
function seek(right, measure) {
  const all = sides.flatMap(waitsOf).filter(right);
  if (all.length) return look(all.reduce((best, one) => measure(one) < measure(best) ? one : best));
  $("wait").textContent = "There is no such wait in this window: other values of the sliders may have one.";
}

/** Looks at the wait after the present one, or at the first. */
function next() {
  const after = wait ? wait.asks : now < END ? now : -1;
  seek(() => true, (one) => one.asks - (one.asks > after ? END : 0));
}

/** Looks at a two-phase wait for a partner that runs, and by turns at the longest spin for one that comes after it. */
function figure7() {
  const ours = (one) => one.side.panel === TWO_PHASE && !one.side.measured && one.last >= 0;
  vainly = !vainly;
  const arrives = ({free, turns: [turn]}) => turn?.blocks && turn.leaves < free && free < turn.returns;
  if (vainly) seek((one) => ours(one) && one.vain && one.turns.length === 1 && arrives(one), (one) => -one.spun);
  else seek((one) => ours(one) && !one.vain && !one.turns.length, (one) => one.asks);
}

/** Moves on: the view in ten seconds, or where motion is to be reduced, in twenty jumps. */
function play() {
  const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 500 : 33;
  clearTimeout(timer);
  if (playing) go(now + pause / 1e4 * (view.end - view.begin));
  playing = playing && now < END;
  document.querySelector("[data-key=' ']").textContent = playing ? "Stop" : "Play";
  if (playing) timer = setTimeout(play, pause);
}

/** @type {Record<string, () => void>} */
const DEEDS = {
  " ": () => { playing = !playing; if (playing && now >= END) go(0); play(); },
  "ArrowLeft": () => step(-1), "ArrowRight": () => step(1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
  "0": () => see(0, END), "w": next, "s": figure7,
};
document.addEventListener("keydown", (event) => {
  const own = {INPUT: ["ArrowLeft", "ArrowRight"], BUTTON: [" "]}[/** @type {HTMLElement} */ (event.target).tagName] || [];
  if (event.ctrlKey || event.altKey || event.metaKey || own.includes(event.key) || !(event.key in DEEDS)) return;
  event.preventDefault();
  DEEDS[event.key]();
});
document.querySelectorAll("[data-key]").forEach((button) => button.addEventListener("click", () => DEEDS[button.dataset.key]()));
inputs.forEach((input, n) => {
  const tell = () => { choice[n] = Number(input.value); input.ariaValueText = input.previousElementSibling.textContent = sliders[n][choice[n]]; };
  input.addEventListener("input", () => { tell(); choose(); });
  tell();
});
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
choose();
