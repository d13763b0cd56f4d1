// The leak lab: the same picture attacked under several methods, side by side, at the noise of the slider.
import { ask, find, onForm } from "./page.js";

const slider = find("sigma");
const sigmas = slider.dataset.sigmas.split(" ");
const known = new Map();
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
let turn = 0, timer = null;

function methods() { return [...document.querySelectorAll("#lab input[name=method]:checked")].map((box) => box.value); }

function card(method) {
  const id = `lab-${method}`;
  if (find(id)) return find(id);
  const made = document.createElement("figure");
  made.id = id;
  made.className = "method";
  made.innerHTML = '<h2></h2><img class="pixel" hidden><figcaption></figcaption>';
  made.querySelector("h2").textContent = method;
  made.querySelector("img").alt = `what the attacker reconstructs under ${method}`;
  return made;
}

function layOut(chosen) {
  for (const old of document.querySelectorAll("#lab-shows .method")) if (!chosen.includes(old.id.slice(4))) old.remove();
  find("lab-shows").append(...chosen.map(card));
}

async function answered(content) {
  const key = JSON.stringify(content);
  if (!known.has(key)) {
    const told = await ask("/api/lab", content);
    if (!told.ok) throw new Error(told.error);
    known.set(key, told);
  }
  return known.get(key);
}

function shown(image, source) { image.src = source; image.hidden = false; }

async function play(made, told, mine) {
  const image = made.querySelector("img");
  for (const frame of still ? told.frames.slice(-1) : told.frames) {
    if (mine !== turn) return;
    shown(image, frame.image);
    made.querySelector("figcaption").textContent = `iteration ${frame.iteration}`;
    await pause(60);
  }
  const noise = told.bare ? " (bare: nothing is done to this gradient)" : ` (sigma ${sigmas[slider.value]})`;
  const nearer = told.error < told.prior_error;
  made.querySelector("figcaption").textContent = `${nearer ? "leaks: " : "no nearer: "}error ${told.error.toFixed(3)}, blind guess ${told.prior_error.toFixed(3)}${noise}`;
}

async function attack() {
  const mine = ++turn;
  const form = new FormData(find("lab"));
  const chosen = methods();
  layOut(chosen);
  find("lab-says").textContent = chosen.length ? "Attacking; the first attack of its kind takes up to a minute." : "Choose a method.";
  let nearer = 0;
  for (const method of chosen) {
    if (mine !== turn) return;
    const content = { dataset: form.get("dataset"), picture: form.get("picture"), attack: form.get("attack"), method, sigma: sigmas[slider.value] };
    card(method).querySelector("figcaption").textContent = "attacking …";
    try {
      const told = await answered(content);
      if (mine !== turn) return;
      shown(find("lab-truth"), told.truth);
      shown(find("lab-prior"), told.prior);
      nearer += told.error < told.prior_error;
      await play(card(method), told, mine);
    } catch (error) {
      card(method).querySelector("figcaption").textContent = error.message;
    }
  }
  if (mine === turn && chosen.length) find("lab-says").textContent = `Reconstructed nearer than a blind guess: ${nearer} of ${chosen.length} methods.`;
}

function soon() {
  clearTimeout(timer);
  timer = setTimeout(attack, 300);
}

slider.addEventListener("input", () => {
  find("sigma-shown").textContent = sigmas[slider.value];
  slider.setAttribute("aria-valuetext", sigmas[slider.value]);
});
find("lab").addEventListener("change", soon);
onForm("lab", attack);
attack();
