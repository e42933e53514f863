"use strict";
/** @typedef {{begins: Uint32Array, codes: Uint16Array|Uint32Array, done: Float64Array}} Lane rows of one processor: when each
 *   state begins (ns), its code (harness/analyse/lanes.py), and the computing before it (ns) */
/** @typedef {{name: string, lanes: Lane[], panel: number, measured: boolean, part: (query: string) => HTMLElement}} Side a run
 *   on the page; part finds an element of it */
/** @typedef {{side: Side, lane: number, home: number, process: number, peer: number, asks: number, goes: number, wakes: number, spun: number,
 *   vain: boolean, turns: {leaves: number, blocks: boolean, returns: number, again: boolean}[], root: number, free: number, last: number}} Wait
 *   of a process, for the peer that it reads from or, without, at a barrier; it loses its processor for so many turns. The
 *   request goes to the lane root; the message that ends the wait comes from the lane last, which is free for it since then */
const data = JSON.parse(document.getElementById("data").textContent);
const [COMPUTING, SPINNING, IN_VAIN, SWITCHING, BLOCKED] = [0, 1, 2, 3, 4], KINDS = data.states.length, TWO_PHASE = 1;
const LANE = data.runs[0].lanes.length > 8 ? 14 : 34, STRIPE = LANE / 5, SHORTEST = 2000, END = data.window;
const $ = (/** @type {string} */ id) => document.getElementById(id), choice = [...data.own], sliders = Object.values(data.sliders);
const inputs = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("#sliders input")]);
let view = {begin: 0, end: END}, now = END, playing = false, timer = 0, /** @type {Wait|null} */ wait = null, vainly = true;
/** @type {Side[]} */ let sides = [];

const whole = Uint8Array.from(atob(data.packed), (c) => c.charCodeAt(0)).buffer;
const total = whole.byteLength / (4 + data.width), begins = new Uint32Array(whole, 0, total);
const codes = new (data.width > 2 ? Uint32Array : Uint16Array)(whole, 4 * total);
let rows = 0;
/** @type {Lane[][]} */ const runs = data.runs.map((run) => run.lanes.map((count) => {
  const lane = {begins: begins.subarray(rows, rows += count), codes: codes.subarray(rows - count, rows), done: new Float64Array(count)};
  for (let i = 1; i < count; i++) lane.done[i] = lane.done[i - 1] + (stateOf(lane, i - 1) ? 0 : lane.begins[i] - lane.begins[i - 1]);
  return lane;
}));

function stateOf(lane, row) { return lane.codes[row] % KINDS; }
function processOf(lane, row) { return Math.floor(lane.codes[row] / KINDS) % data.processes.length; }
const waitOf = (lane, row) => Math.floor(lane.codes[row] / KINDS / data.processes.length);
const peerOf = (lane, row) => (waitOf(lane, row) >> 1) - 1, blocksAt = (lane, row) => waitOf(lane, row) % 2 === 1;
const jobOf = (process) => data.processes[process][0];
const endOf = (lane, row) => row + 1 < lane.begins.length ? lane.begins[row + 1] : END;
const ms = (time) => `${(time / 1e6).toFixed(view.end - view.begin < 5e6 ? 4 : 1)} ms`;
const within = (least, value, most) => Math.max(least, Math.min(most, value));

/** The row in force at a time. @param {Lane} lane @param {number} time @returns {number} */
function rowAt(lane, time) {
  let low = 0, high = lane.begins.length;
  while (high - low > 1) { const middle = (low + high) >> 1; if (lane.begins[middle] <= time) low = middle; else high = middle; }
  return low;
}

/** Makes the sides of each panel for the present values of the sliders. */
function choose() {
  const [g, v, quantum, spin] = choice, [, imbalances, quanta, spins] = sliders.map((one) => one.length);
  const first = (g * imbalances + v) * (1 + spins + quanta), count = runs.length - data.measured.length;
  sides = [];
  document.querySelectorAll("#panels article").forEach((article, panel) => {
    const wanted = [first + [0, 1 + spin, 1 + spins + quantum][panel]];
    if (g === data.own[0] && v === data.own[1] && data.measured.includes(panel)) wanted.push(count + data.measured.indexOf(panel));
    article.replaceChildren(article.firstElementChild, ...wanted.map((run) => {
      const made = /** @type {Element} */ (/** @type {HTMLTemplateElement} */ ($("side")).content.firstElementChild.cloneNode(true));
      const part = (query) => made.querySelector(query), measured = run >= count, {name, failure} = data.runs[run];
      const told = `${measured ? "measured" : "simulated"}: ${name}${failure && ` (${failure})`}`;
      const side = {name: told, lanes: runs[run], panel, measured, part};
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
  const looks = data.looks.map(([name, share]) => [colour(name), share]), jobs = [0, 1, 2, 3, 4, 5].map((n) => colour(`job${n}`));
  for (const {lanes, part} of sides) {
    const canvas = part("canvas"), paint = canvas.getContext("2d"), [width, height] = [canvas.clientWidth, lanes.length * LANE];
    [canvas.width, canvas.height, canvas.style.height] = [width * devicePixelRatio, height * devicePixelRatio, `${height}px`];
    paint.scale(devicePixelRatio, devicePixelRatio);
    const across = (time) => (time - view.begin) / (view.end - view.begin) * width, middle = (lane) => (lane + 0.5) * LANE;
    lanes.forEach((lane, n) => {
      const floor = (n + 1) * LANE - STRIPE - 2;
      for (let row = rowAt(lane, view.begin); row < lane.begins.length && lane.begins[row] < view.end; row++) {
        const from = Math.max(0, across(lane.begins[row])), to = Math.min(width, across(endOf(lane, row)));
        const state = stateOf(lane, row), [fill, share] = looks[state], tall = (LANE - STRIPE - 4) * share;
        paint.fillStyle = fill;
        paint.fillRect(from, floor - tall, to - from, tall);
        paint.fillStyle = jobs[jobOf(processOf(lane, row)) % jobs.length];
        if (state <= SWITCHING) paint.fillRect(from, floor + 1, to - from, STRIPE);
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
    const at = lanes.map((lane) => rowAt(lane, Math.min(now, END - 1))), states = lanes.map((lane, n) => stateOf(lane, at[n]));
    const work = lanes.reduce((sum, {begins, done}, n) => sum + done[at[n]] + (states[n] === COMPUTING ? now - begins[at[n]] : 0), 0);
    const each = lanes.map((lane, n) => `processor ${n}: ${states[n] > SWITCHING ? "" : `job ${jobOf(processOf(lane, at[n]))} `}${data.states[states[n]]}`);
    const counts = data.states.map((state, n) => [states.filter((one) => one === n).length, state]).filter(([count]) => count);
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
  const from = now + way * (view.end - view.begin) / 100, lanes = sides.flatMap((side) => side.lanes);
  playing = false;
  if (way > 0) go(Math.min(...lanes.map((lane) => endOf(lane, rowAt(lane, from)))));
  else go(Math.max(...lanes.map((lane) => from < 0 ? 0 : lane.begins[rowAt(lane, from)])));
}

/** @param {Side} side @returns {Wait[]} all waits that end in the window */
function waitsOf(side) {
  const found = [], open = {}, {lanes} = side;
  const rows = lanes.flatMap((lane, n) => Array.from(lane.begins, (begin, row) => [begin, n, row])).sort((a, b) => a[0] - b[0]);
  for (const [begin, n, row] of rows) {
    const lane = lanes[n], process = processOf(lane, row), peer = peerOf(lane, row), state = stateOf(lane, row), end = endOf(lane, row);
    const spins = state === SPINNING || state === IN_VAIN, last = open[process]?.turns.at(-1);
    if (state > SWITCHING) continue;
    if (last && last.returns < 0) last.returns = begin;
    if (open[process] && (state === COMPUTING || spins && peer !== open[process].peer)) {
      const wakes = last && !last.again ? last.returns : begin; // where it does not spin again, its message was there
      found.push({...open[process], home: n, goes: begin, wakes, ...partner(open[process], wakes)});
      delete open[process];
    }
    if (spins || state === COMPUTING && blocksAt(lane, row))
      open[process] ||= {side, lane: n, process, peer, asks: spins ? begin : end, spun: 0, vain: false, turns: []};
    const one = open[process];
    if (!one) continue;
    [one.spun, one.vain] = [one.spun + (spins ? end - begin : 0), one.vain || state === IN_VAIN];
    if (last) last.again ||= spins;
    const on = row + 1 < lane.begins.length && processOf(lane, row + 1) === process && stateOf(lane, row + 1) <= SWITCHING;
    if (!on) one.turns.push({leaves: end, blocks: blocksAt(lane, row), returns: -1, again: false});
  }
  return found;
}

/** Whom a process asks, and when and where the message that ends its wait could leave. @param {Wait} wait @param {number} before */
function partner({side, lane: own, process, peer, asks}, before) {
  const [job, rank] = data.processes[process], target = process - rank + peer;
  let root = own, free = -1, last = -1;
  side.lanes.forEach((lane, n) => {
    for (let row = rowAt(lane, before - 1), tries = 0; n !== own && row >= 0 && tries < 1000; row--, tries++) {
      const state = stateOf(lane, row), whose = processOf(lane, row), end = endOf(lane, row);
      if (peer >= 0 && end <= asks) break;
      if (jobOf(whose) !== job || state >= SWITCHING) continue;
      if (peer >= 0) { // the first time that it runs and does not compute, if there is one
        if (whose === target && (state !== COMPUTING || last < 0)) [root, last, free] = [n, n, Math.max(asks, lane.begins[row])];
      } else if (state === COMPUTING || peerOf(lane, row) >= 0) { // it comes to the barrier; all must have come
        if (end > before) continue;
        if (root === own) root = n;
        if (end > Math.max(free, asks)) [free, last] = [end, n];
        break;
      }
    }
  });
  return {root, free, last};
}

/** Zooms to one wait, and tells of it. @param {Wait} one */
function look(one) {
  const room = Math.max(SHORTEST, (one.goes - one.asks) * 0.4), begin = Math.max(0, one.asks - room), reads = one.peer >= 0;
  [wait, playing, now] = [one, false, Math.min(END, one.goes + room)];
  see(begin, now - begin);
  const whom = !reads ? "all partners" : one.root === one.home ? "itself" : `process ${one.peer}`;
  const told = one.turns.flatMap(({leaves, blocks, returns}) =>
    [[leaves, blocks ? "it blocks" : "its turn ends"], [returns, "it has its processor again"]]);
  if (one.last >= 0) told.push([one.free, reads ? "its partner can answer" : "the last partner arrives", one.last]);
  $("wait").textContent = `${[
    `${one.side.name}: job ${jobOf(one.process)} asks ${whom} at ${ms(one.asks)} on processor ${one.lane}`,
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
