// The leak lab: frames that were computed before (leak-frames.js), chosen by sliders. Nothing is computed here.
"use strict";

(function () {
  const place = document.getElementById("lab-panel");
  const methods = [...new Set(LEAKS.map((one) => one.method))];
  const sigmas = [...new Set(LEAKS.map((one) => one.sigma))].filter((sigma) => sigma > 0);
  const batches = [...new Set(LEAKS.map((one) => one.batch))];

  place.innerHTML = `
    <div class="gv-controls">
      <label>method <select id="lab-method"></select></label>
      <label>noise scale sigma <output id="lab-sigma-said"></output>
        <input type="range" id="lab-sigma" min="0" max="${sigmas.length - 1}" step="1" value="0"></label>
      <label>pictures in the batch <output id="lab-batch-said"></output>
        <input type="range" id="lab-batch" min="0" max="${batches.length - 1}" step="1" value="0"></label>
      <label>iteration of the attack <output id="lab-moment-said"></output>
        <input type="range" id="lab-moment" min="0" value="0" step="1"></label>
    </div>
    <div class="gv-rows">
      <span>truth</span><div id="lab-truth"></div>
      <span>the attacker's guess</span><div id="lab-guess"></div>
      <span>read nothing</span><div id="lab-prior"></div>
    </div>
    <p class="gv-said" id="lab-said" aria-live="polite"></p>`;

  const find = (name) => document.getElementById(`lab-${name}`);
  methods.forEach((method) => find("method").add(new Option(method, method)));

  function draw(where, pictures, what) {
    where.replaceChildren(...pictures.map((digits, i) => {
      const canvas = document.createElement("canvas"), side = Math.sqrt(digits.length);
      canvas.width = canvas.height = side;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${what}, picture ${i + 1}`);
      const context = canvas.getContext("2d"), image = context.createImageData(side, side);
      [...digits].forEach((digit, k) => image.data.set([17, 17, 17].map((g) => g * parseInt(digit, 16)).concat(255), 4 * k));
      context.putImageData(image, 0, 0);
      return canvas;
    }));
  }

  function show(moved) {
    const method = find("method").value, bare = method === "non-private";
    const sigma = bare ? 0 : sigmas[find("sigma").value], batch = batches[find("batch").value];
    const one = LEAKS.find((l) => l.method === method && l.sigma === sigma && l.batch === batch);
    const last = one.frames.length - 1, slider = find("moment");
    slider.max = last;
    if (!moved) slider.value = last;
    const moment = Number(slider.value), iteration = one.iterations[moment];
    find("sigma").disabled = bare;
    find("sigma-said").value = bare ? "no noise" : sigma;
    find("batch-said").value = batch;
    find("moment-said").value = iteration;
    draw(find("truth"), one.truth, "truth");
    draw(find("guess"), one.frames[moment], "guess");
    draw(find("prior"), [one.prior], "guess without the gradient");
    const nearer = 1 - one.error / one.prior_error;
    const verdict = !one.fitted && nearer < 0.5 ? "The attack did not fit what it read, so this says little." : nearer > 0.5 ? "The pictures leak." : nearer > 0.1 ? "Something leaks." : "Nothing was found.";
    find("said").textContent = `${bare ? "The gradient is bare: nothing is done to it. " : ""}${verdict} Root mean square error at the end: ${one.error.toFixed(3)}; of a guess that ` +
      `reads no gradient: ${one.prior_error.toFixed(3)}.`;
  }

  ["method", "sigma", "batch"].forEach((name) => find(name).addEventListener("input", () => show(false)));
  find("moment").addEventListener("input", () => show(true));
  show(false);
})();
