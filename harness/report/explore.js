"use strict";
/** @typedef {{begins: Uint32Array, codes: Uint16Array, done: Float64Array}} Lane rows of one processor: when each
 *   state begins (ns), process * states + state, and the computing before it (ns) */
/** @typedef {{name: string, lanes: Lane[], panel: number, measured: boolean, part: (query: string) => HTMLElement}} Side a run
 *   on the page; part finds an element of it */
/** @typedef {{side: Side, lane: number, process: number, asks: number, leaves: number, returns: number, goes: number, wakes: number,
 *   vain: boolean, blocks: boolean, root: number, free: number, last: number}} Wait of a process: it asks, leaves its processor
 *   and returns to it (or neither: then as it goes on); the message for which it wakes comes from the last partner to be free */
const data = JSON.parse(document.getElementById("data").textContent);
const [COMPUTING, SPINNING, IN_VAIN, SWITCHING, BLOCKED] = [0, 1, 2, 3, 4], KINDS = data.states.length, TWO_PHASE = 1;
const LANE = data.runs[0].lanes.length > 8 ? 14 : 34, STRIPE = LANE / 5, SHORTEST = 2000, END = data.window;
const $ = (/** @type {string} */ id) => document.getElementById(id), choice = [...data.own], sliders = Object.values(data.sliders);
const inputs = /** @type {HTMLInputElement[]} */ ([...document.querySelectorAll("#sliders input")]);
let view = {begin: 0, end: END}, now = END, playing = false, timer = 0, /** @type {Wait|null} */ wait = null, vainly = true;
/** @type {Side[]} */ let sides = [];

const whole = Uint8Array.from(atob(data.packed), (c) => c.charCodeAt(0)).buffer;
const begins = new Uint32Array(whole, 0, data.rows), codes = new Uint16Array(whole, 4 * data.rows);
let rows = 0;
/** @type {Lane[][]} */ const runs = data.runs.map((run) => run.lanes.map((count) => {
  const lane = {begins: begins.subarray(rows, rows += count), codes: codes.subarray(rows - count, rows), done: new Float64Array(count)};
  for (let i = 1; i < count; i++) lane.done[i] = lane.done[i - 1] + (stateOf(lane, i - 1) ? 0 : lane.begins[i] - lane.begins[i - 1]);
  return lane;
}));

function stateOf(lane, row) { return lane.codes[row] % KINDS; }
function processOf(lane, row) { return Math.floor(lane.codes[row] / KINDS); }
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
    arrow(paint, across(wait.asks), middle(wait.lane), across(wait.asks) + 8, middle(wait.root));
    if (wait.last >= 0) arrow(paint, across(wait.free), middle(wait.last), across(wait.wakes), middle(wait.lane));
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
  return side.lanes.flatMap((lane, n) => {
    const found = [], count = lane.begins.length;
    for (let row = 0, next = 0; row < count; row = Math.max(next, row + 1)) {
      const process = processOf(lane, row), asks = lane.begins[row];
      let vain = false, blocks = false;
      for (next = row; next < count && processOf(lane, next) === process && [SPINNING, IN_VAIN].includes(stateOf(lane, next)); next++)
        vain ||= stateOf(lane, next) === IN_VAIN;
      if (next === row || next === count) continue;
      let back = next;
      for (; back < count && (processOf(lane, back) !== process || stateOf(lane, back) > SWITCHING); back++)
        blocks ||= side.panel === TWO_PHASE && !side.measured && stateOf(lane, back) === BLOCKED; // surely, as nobody could run
      let on = back;
      while (on < count && stateOf(lane, on) === SWITCHING) on++;
      if (on >= count) continue;
      const [leaves, returns, goes] = [lane.begins[next], lane.begins[back], lane.begins[on]];
      const wakes = stateOf(lane, on) === COMPUTING ? returns : goes; // then its partner has come, and may compute again
      found.push({side, lane: n, process, asks, leaves, returns, goes, wakes, vain, blocks, ...partner(side, process, n, asks, wakes)});
    }
    return found;
  });
}

/** The lane of the partner to ask; the last one that was free between two times, and when: for barriers, whose end needs all.
 *  @param {Side} side @param {number} process @param {number} own lane @param {number} after @param {number} before */
function partner(side, process, own, after, before) {
  let root = own, free = -1, last = -1;
  side.lanes.forEach((lane, n) => {
    for (let row = rowAt(lane, before), tries = 0; n !== own && row >= 0 && tries < 1000; row--, tries++) {
      const end = endOf(lane, row);
      if (jobOf(processOf(lane, row)) !== jobOf(process) || stateOf(lane, row) !== COMPUTING || end > before) continue;
      if (root === own) root = n;
      if (data.barriers && end > Math.max(free, after)) [free, last] = [end, n];
      break;
    }
  });
  return {root, free, last};
}

/** Zooms to one wait, and tells of it. @param {Wait} one */
function look(one) {
  const room = Math.max(SHORTEST, (one.goes - one.asks) * 0.4), begin = Math.max(0, one.asks - room), gone = one.leaves < one.returns;
  [wait, playing, now] = [one, false, Math.min(END, one.goes + room)];
  see(begin, now - begin);
  const why = one.blocks ? "it blocks" : one.side.panel === TWO_PHASE ? "it blocks, or its turn ends," : "its turn ends";
  $("wait").textContent = `${[
    `${one.side.name}: job ${jobOf(one.process)} asks at ${ms(one.asks)} on processor ${one.lane}`,
    `it spins for ${((one.leaves - one.asks) / 1e3).toFixed(1)} us, for ${one.vain ? "a partner that is not running" : "partners that run"}`,
    ...(gone ? [`${why} at ${ms(one.leaves)}`] : []),
    ...(one.last >= 0 ? [`the last partner arrives at ${ms(one.free)} on processor ${one.last}`] : []),
    ...(gone ? [`it has its processor again at ${ms(one.returns)}`] : []),
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
  if (vainly) seek((one) => ours(one) && one.vain && one.leaves < one.returns && one.free > one.leaves, (one) => one.asks - one.leaves);
  else seek((one) => ours(one) && !one.vain && one.leaves === one.goes, (one) => one.asks);
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
