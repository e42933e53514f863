"use strict";
/** @typedef {{begins: Uint32Array, codes: Uint16Array, done: Float64Array}} Lane rows of one processor: when each
 *   state begins (ns), process * states + state, and the computing before it (ns) */
/** @typedef {{name: string, lanes: Lane[], panel: number, measured: boolean, canvas: HTMLCanvasElement, curtain: HTMLElement,
 *   work: HTMLElement, now: HTMLElement}} Side one run on the page */
/** @typedef {{side: Side, lane: number, process: number, asks: number, leaves: number, returns: number, goes: number, wakes: number,
 *   vain: boolean, blocks: boolean, root: number, free: number, last: number}} Wait of a process: asks, leaves its processor
 *   (or not: then at goes), returns to it, goes on; its partner is on lane root; last to arrive, at free, was lane last */
const data = JSON.parse(document.getElementById("data").textContent);
const [COMPUTING, SPINNING, IN_VAIN, SWITCHING, BLOCKED] = [0, 1, 2, 3, 4], KINDS = data.states.length;
const LANE = data.runs[0].lanes.length > 8 ? 14 : 34, STRIPE = LANE / 5;
const MARKS = data.looks, TIGHTEST = 2000, END = data.window;
const $ = (/** @type {string} */ id) => document.getElementById(id);
const choice = [...data.own];
let view = {begin: 0, end: END}, now = END, playing = false, /** @type {Wait|null} */ wait = null, situation = 0, timer = 0;
/** @type {Side[]} */ let sides = [];
/** @type {Lane[][]} */ let runs = [];

/** Reads the lanes of all runs. */
function unpack() {
  const whole = Uint8Array.from(atob(data.packed), (c) => c.charCodeAt(0)).buffer;
  const begins = new Uint32Array(whole, 0, data.rows), codes = new Uint16Array(whole, 4 * data.rows);
  let row = 0;
  runs = data.runs.map((run) => run.lanes.map((rows) => {
    const lane = {begins: begins.subarray(row, row + rows), codes: codes.subarray(row, row + rows), done: new Float64Array(rows)};
    for (let i = 1; i < rows; i++) lane.done[i] = lane.done[i - 1] + (lane.codes[i - 1] % KINDS ? 0 : lane.begins[i] - lane.begins[i - 1]);
    row += rows;
    return lane;
  }));
}

/** The row in force at a time. @param {Lane} lane @param {number} time @returns {number} */
function rowAt(lane, time) {
  let low = 0, high = lane.begins.length;
  while (high - low > 1) { const middle = (low + high) >> 1; if (lane.begins[middle] <= time) low = middle; else high = middle; }
  return low;
}
const stateOf = (lane, row) => lane.codes[row] % KINDS;
const processOf = (lane, row) => Math.floor(lane.codes[row] / KINDS);
const endOf = (lane, row) => row + 1 < lane.begins.length ? lane.begins[row + 1] : END;
const ms = (time) => `${(time / 1e6).toFixed(view.end - view.begin < 5e6 ? 4 : 1)} ms`;
const jobOf = (process) => data.processes[process][0];

/** Makes the sides of each panel for the present values of the sliders. */
function choose() {
  const [g, v, quantum, spin] = choice, spins = data.sliders[3].values.length, quanta = data.sliders[2].values.length;
  const first = (g * data.sliders[1].values.length + v) * (1 + spins + quanta);
  const own = g === data.own[0] && v === data.own[1] && (!$("beside") || $("beside").checked);
  const count = data.runs.length - data.measured.length;
  sides = [];
  document.querySelectorAll("#panels article").forEach((article, panel) => {
    const wanted = [[first + [0, 1 + spin, 1 + spins + quantum][panel], "simulated"]];
    data.measured.forEach((where, n) => { if (own && where === panel) wanted.push([count + n, "measured"]); });
    article.replaceChildren(article.firstElementChild, ...wanted.flatMap(([run, how]) => {
      const [work, stage, curtain, text] = ["p", "div", "div", "p"].map((tag) => document.createElement(tag));
      const canvas = document.createElement("canvas");
      [stage.className, curtain.className, text.className] = ["stage", "curtain", "now"];
      canvas.setAttribute("role", "img");
      stage.append(canvas, curtain);
      const name = `${how}: ${data.runs[run].name}${data.runs[run].failure ? ` (${data.runs[run].failure})` : ""}`;
      const side = {name, lanes: runs[run], panel, measured: how === "measured", canvas, curtain, work, now: text};
      stage.addEventListener("click", (event) => {
        const place = canvas.getBoundingClientRect(), lane = Math.floor((event.clientY - place.top) / LANE);
        const time = view.begin + (event.clientX - place.left) / place.width * (view.end - view.begin);
        const near = lane < side.lanes.length && waitsOf(side, lane, time - 1, 1);
        if (near && near.length) look(near[0]); else go(time);
      });
      sides.push(side);
      return [work, stage, text];
    }));
  });
  wait = null;
  $("wait").textContent = "";
  draw();
}

/** Draws all lanes, and the arrows of the chosen wait. */
function draw() {
  const style = getComputedStyle(document.documentElement), ratio = devicePixelRatio || 1;
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const states = MARKS.map(([name, share]) => [colour(name), share]), jobs = [0, 1, 2, 3, 4, 5].map((n) => colour(`job${n}`));
  for (const side of sides) {
    const {canvas, lanes} = side, width = canvas.clientWidth, height = lanes.length * LANE;
    [canvas.width, canvas.height, canvas.style.height] = [width * ratio, height * ratio, `${height}px`];
    const paint = canvas.getContext("2d"), per = width / (view.end - view.begin);
    paint.scale(ratio, ratio);
    const across = (time) => (time - view.begin) * per;
    lanes.forEach((lane, n) => {
      const floor = (n + 1) * LANE - STRIPE - 2;
      for (let row = rowAt(lane, view.begin); row < lane.begins.length && lane.begins[row] < view.end; row++) {
        const from = Math.max(0, across(lane.begins[row])), to = Math.min(width, across(endOf(lane, row)));
        const state = stateOf(lane, row), [fill, share] = states[state], tall = (LANE - STRIPE - 4) * share;
        paint.fillStyle = fill;
        paint.fillRect(from, floor - tall, to - from, tall);
        if (state > SWITCHING) continue;
        paint.fillStyle = jobs[jobOf(processOf(lane, row)) % jobs.length];
        paint.fillRect(from, floor + 1, to - from, STRIPE);
      }
    });
    if (wait && wait.side === side) {
      paint.strokeStyle = paint.fillStyle = colour("ink");
      paint.lineWidth = 1.5;
      const middle = (lane) => (lane + 0.5) * LANE;
      arrow(paint, across(wait.asks), middle(wait.lane), across(wait.asks) + 8, middle(wait.root));
      if (wait.last >= 0) arrow(paint, across(wait.free), middle(wait.last), across(wait.wakes), middle(wait.lane));
    }
  }
  show();
}

/** @param {CanvasRenderingContext2D} paint @param {number} x @param {number} y @param {number} toX @param {number} toY */
function arrow(paint, x, y, toX, toY) {
  const angle = Math.atan2(toY - y, toX - x);
  paint.beginPath();
  paint.moveTo(x, y);
  paint.lineTo(toX, toY);
  paint.lineTo(toX - 7 * Math.cos(angle - 0.4), toY - 7 * Math.sin(angle - 0.4));
  paint.moveTo(toX, toY);
  paint.lineTo(toX - 7 * Math.cos(angle + 0.4), toY - 7 * Math.sin(angle + 0.4));
  paint.stroke();
}

/** Shows the present: the curtain, the useful work so far, and what each processor does. */
function show() {
  $("time").textContent = `${ms(now)}; from ${ms(view.begin)} to ${ms(view.end)}`;
  for (const side of sides) {
    const place = (now - view.begin) / (view.end - view.begin);
    side.curtain.style.left = `${Math.max(0, Math.min(1, place)) * 100}%`;
    let work = 0;
    const counts = new Map(), told = side.lanes.map((lane, n) => {
      const row = rowAt(lane, Math.min(now, END - 1)), state = stateOf(lane, row), name = data.states[state];
      work += lane.done[row] + (state === COMPUTING ? now - lane.begins[row] : 0);
      counts.set(name, (counts.get(name) || 0) + 1);
      return `processor ${n}: ${state > SWITCHING ? name : `job ${jobOf(processOf(lane, row))} ${name}`}`;
    });
    const share = now ? ` (${(100 * work / now / side.lanes.length).toFixed(0)}\u00a0%)` : "";
    side.work.textContent = `${side.name}. Useful work so far: ${(work / 1e6).toFixed(1)} ms${share}`;
    side.now.textContent = told.length <= 4 ? told.join("; ") : [...counts].map(([name, n]) => `${n} ${name}`).join(", ");
    side.canvas.setAttribute("aria-label", `${side.name} at ${ms(now)}: ${side.now.textContent}`);
  }
}

/** Goes to a time, and moves the view so that it is in sight. @param {number} time */
function go(time) {
  now = Math.max(0, Math.min(END, time));
  const span = view.end - view.begin, begin = now < view.begin || now > view.end ? now - span / 2 : view.begin;
  const moved = Math.max(0, Math.min(END - span, begin));
  if (moved === view.begin) return show();
  view = {begin: moved, end: moved + span};
  draw();
}

/** @param {number} factor of the length of the view */
function zoom(factor) {
  const span = Math.min(END, Math.max(TIGHTEST, (view.end - view.begin) * factor));
  const begin = Math.max(0, Math.min(END - span, now - (now - view.begin) * span / (view.end - view.begin)));
  view = {begin, end: begin + span};
  draw();
}

/** The nearest change of a lane, at least a hundredth of the view away. @param {1|-1} way */
function step(way) {
  const least = (view.end - view.begin) / 100, from = now + way * least;
  let found = way > 0 ? END : 0;
  for (const {lanes} of sides) for (const lane of lanes) {
    const row = rowAt(lane, from) + (way > 0 ? 1 : 0);
    if (row < lane.begins.length) found = way > 0 ? Math.min(found, lane.begins[row]) : Math.max(found, lane.begins[row]);
  }
  playing = false;
  go(found);
}

/** The waits on a lane that end after a time, at most so many. @param {Side} side @param {number} n @param {number} after
 *  @param {number} most @returns {Wait[]} */
function waitsOf(side, n, after, most) {
  const lane = side.lanes[n], found = [], spins = (row) => [SPINNING, IN_VAIN].includes(stateOf(lane, row));
  for (let row = Math.max(0, rowAt(lane, Math.max(0, after))); row < lane.begins.length && found.length < most; row++) {
    if (!spins(row) || (row && spins(row - 1) && processOf(lane, row - 1) === processOf(lane, row))) {
      if (!(row && found.length === 0 && spins(row))) continue;
      while (row && spins(row - 1) && processOf(lane, row - 1) === processOf(lane, row)) row--;
    }
    const process = processOf(lane, row), asks = lane.begins[row];
    let vain = false, next = row;
    for (; next < lane.begins.length && spins(next) && processOf(lane, next) === process; next++) vain ||= stateOf(lane, next) === IN_VAIN;
    if (next >= lane.begins.length) break;
    const stays = processOf(lane, next) === process && stateOf(lane, next) === COMPUTING, leaves = lane.begins[next];
    let back = next;
    while (!stays && back < lane.begins.length && (processOf(lane, back) !== process || stateOf(lane, back) > SWITCHING)) back++;
    let on = back;
    while (on < lane.begins.length && stateOf(lane, on) === SWITCHING) on++;
    if (on >= lane.begins.length) break;
    let blocks = false; // surely: a processor that nobody has tells that all its processes are blocked
    for (let between = next; !stays && side.panel === 1 && between < back; between++) blocks ||= stateOf(lane, between) === BLOCKED;
    const goes = stays ? leaves : lane.begins[on];
    const returns = stays ? leaves : lane.begins[back];
    const wakes = stateOf(lane, on) === COMPUTING ? returns : goes; // then its partner has arrived, and may compute again
    found.push({side, lane: n, process, asks, leaves, returns, goes, wakes, vain, blocks, ...partner(side, process, n, asks, wakes)});
    row = next - 1;
  }
  return found;
}

/** The partner to ask, and who of the others was the last to stop computing before a time, and when, if it was after asks.
 *  @param {Side} side @param {number} process @param {number} own lane @param {number} asks @param {number} before */
function partner(side, process, own, asks, before) {
  let root = own, free = -1, last = -1;
  side.lanes.forEach((lane, n) => {
    for (let row = rowAt(lane, before), tries = 0; n !== own && row >= 0 && tries < 1000; row--, tries++) {
      const other = processOf(lane, row), end = endOf(lane, row);
      if (jobOf(other) !== jobOf(process) || stateOf(lane, row) !== COMPUTING || end > before) continue;
      if (root === own) root = n;
      if (data.barriers && end > Math.max(free, asks)) [free, last] = [end, n];
      break;
    }
  });
  return {root, free, last};
}

/** Zooms to one wait, and tells of it. @param {Wait} one */
function look(one) {
  const room = Math.max(TIGHTEST, (one.goes - one.asks) * 0.4);
  view = {begin: Math.max(0, Math.min(one.asks, one.free < 0 ? END : one.free) - room), end: Math.min(END, one.goes + room)};
  [wait, playing, now] = [one, false, view.end];
  draw();
  const gone = one.leaves < one.goes, parts = [`${one.side.name}: job ${jobOf(one.process)} asks at ${ms(one.asks)} on processor ${one.lane}`];
  const others = one.vain ? "a partner that is not running" : "partners that run";
  parts.push(`it spins for ${((one.leaves - one.asks) / 1e3).toFixed(1)} us, for ${others}`);
  const why = one.blocks ? "it blocks" : one.side.panel === 1 ? "it blocks, or its turn ends," : "its turn ends";
  if (gone) parts.push(`${why} at ${ms(one.leaves)}`);
  if (one.last >= 0) parts.push(`the last partner arrives at ${ms(one.free)} on processor ${one.last}`);
  if (gone) parts.push(`it has its processor again at ${ms(one.returns)}`);
  $("wait").textContent = `${[...parts, `it goes on at ${ms(one.goes)}`].join("; ")}.`;
}

/** Looks at the wait of any side that is right and comes first by a measure.
 *  @param {(one: Wait) => boolean} right @param {(one: Wait) => number} measure */
function seek(right, measure) {
  const all = sides.flatMap((side) => side.lanes.flatMap((_, n) => waitsOf(side, n, 0, 20000))).filter(right);
  if (all.length) return look(all.reduce((best, one) => measure(one) < measure(best) ? one : best));
  $("wait").textContent = "There is no such wait in this window: other values of the sliders may have one.";
}

/** The wait after the present one, or the first. */
function next() {
  const after = wait ? wait.asks : now < END ? now : -1;
  seek(() => true, (one) => one.asks - (one.asks > after ? END : 0));
}

/** A two-phase wait for a partner that runs, and by turns the longest spin for one that comes after it. */
function figure7() {
  const ours = (one) => one.side.panel === 1 && !one.side.measured, spins = (one) => one.asks - one.leaves;
  situation = 1 - situation;
  if (situation) seek((one) => ours(one) && !one.vain && one.leaves === one.goes && one.last >= 0, (one) => one.asks);
  else seek((one) => ours(one) && one.vain && one.leaves < one.goes && one.free > one.leaves, spins);
}

/** @type {Record<string, () => void>} */
const DEEDS = {
  " ": () => { playing = !playing; if (playing && now >= END) go(0); play(); },
  "ArrowLeft": () => step(-1),
  "ArrowRight": () => step(1),
  "+": () => zoom(0.5),
  "-": () => zoom(2),
  "0": () => { view = {begin: 0, end: END}; draw(); },
  "w": next,
  "s": figure7,
};
DEEDS["="] = DEEDS["+"];

/** Moves on: the view in ten seconds, or where motion is to be reduced, in twenty jumps. */
function play() {
  const pause = matchMedia("(prefers-reduced-motion: reduce)").matches ? 500 : 33;
  clearTimeout(timer);
  if (playing) go(now + pause / 1e4 * (view.end - view.begin));
  playing = playing && now < END;
  document.querySelector("[data-key=' ']").textContent = playing ? "Stop" : "Play";
  if (playing) timer = setTimeout(play, pause);
}

document.addEventListener("keydown", (event) => {
  const target = /** @type {HTMLElement} */ (event.target), own = target.matches("input") ? /^(Arrow.*| )$/ : target.matches("button") ? /^ $/ : /^$/;
  if (event.ctrlKey || event.altKey || event.metaKey || own.test(event.key) || !(event.key in DEEDS)) return;
  event.preventDefault();
  DEEDS[event.key]();
});
document.querySelectorAll("[data-key]").forEach((button) => button.addEventListener("click", () => DEEDS[button.dataset.key]()));
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
data.sliders.forEach(({name, values}, n) => {
  const [label, value, input] = ["label", "output", "input"].map((tag) => document.createElement(tag));
  [input.type, input.min, input.max, input.value, value.textContent] = ["range", "0", values.length - 1, choice[n], values[choice[n]]];
  input.addEventListener("input", () => {
    choice[n] = Number(input.value);
    value.textContent = values[choice[n]];
    input.setAttribute("aria-valuetext", value.textContent);
    choose();
  });
  input.setAttribute("aria-valuetext", value.textContent);
  label.append(name, value, input);
  $("sliders").append(label);
});
if ($("beside")) $("beside").addEventListener("change", choose);
unpack();
choose();
