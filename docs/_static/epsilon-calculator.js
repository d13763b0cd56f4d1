// The epsilon calculator: entries of a table of the package (epsilons.js), and a closed form for fed-sum.
"use strict";

// ln Phi(x), to about eleven digits: a series near 0, a continued fraction in the tail.
function logPhi(x) {
  const z = -x / Math.SQRT2;
  if (z < 3) return Math.log(0.5 * (1 - erf(z)));
  let fraction = 0;
  for (let k = 60; k > 0; k--) fraction = (k / 2) / (z + fraction);
  return -z * z - Math.log(2 * Math.sqrt(Math.PI) * (z + fraction));
}

function erf(z) {
  if (z < 0) return -erf(-z);
  if (z > 6) return 1;
  let term = z, sum = z;
  for (let n = 1; term > 1e-18 * sum; n++) sum += term *= (2 * z * z) / (2 * n + 1);
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
}

// delta of N(mu, 1) against N(0, 1) at epsilon, and the epsilon at which it is delta.
function gaussianDelta(mu, epsilon) {
  const above = logPhi(-epsilon / mu + mu / 2), below = epsilon + logPhi(-epsilon / mu - mu / 2);
  return Math.exp(above) * -Math.expm1(Math.min(below - above, 0));
}

function gaussianEpsilon(mu, delta) {
  if (gaussianDelta(mu, 0) <= delta) return 0;
  let low = 0, high = (mu * mu) / 2 + mu * Math.sqrt(2 * Math.log(1 / delta)) + 1;
  for (let i = 0; i < 200 && high - low > 1e-13 * high; i++) {
    const middle = (low + high) / 2;
    if (gaussianDelta(mu, middle) > delta) low = middle; else high = middle;
  }
  return high;
}

// Four digits, never less than the number is.
function roundedUp(epsilon) {
  if (epsilon === 0) return 0;
  const unit = 10 ** (3 - Math.floor(Math.log10(epsilon)));
  return Math.ceil(epsilon * unit * (1 - 1e-9)) / unit;
}

// What fed-sum shows: the server sees each client's noised sums, all others only what K of them add up to.
function sumEpsilons(sigma, rounds, clients, delta) {
  const mu = Math.sqrt(rounds) / sigma, pooled = mu / Math.sqrt(clients);
  const seen = { central: pooled, "central-visible": pooled, aggregate: pooled };
  return Object.fromEntries(Object.keys(EPSILONS.threats).map(
    (threat) => [threat, roundedUp(gaussianEpsilon(seen[threat] ?? mu, delta))]));
}

(function () {
  const place = document.getElementById("calc-panel");
  const units = { "fed-cdp": "example", "fed-sdp": "client", "fed-sum": "example" };
  const numbers = [
    ["sigma", "noise scale sigma of each client", 17, 0.05, 10000, "any"],
    ["rounds", "rounds T", 10, 1, 100000, "1"],
    ["clients", "clients K, all of them honest", 100, 1, 1000000, "1"],
    ["delta", "delta", 1e-5, 1e-12, 0.01, "any"],
  ];

  place.innerHTML = `
    <div class="gv-controls"><label>method <select id="calc-method"></select></label></div>
    <div class="gv-controls" id="calc-inputs"></div>
    <table><thead><tr><th scope="col">adversary</th><th scope="col">epsilon</th><th scope="col">an adversary who</th></tr></thead>
      <tbody id="calc-rows"></tbody></table>
    <p class="gv-said" id="calc-said" aria-live="polite"></p>
    <code class="gv-command" id="calc-command"></code>`;

  const find = (name) => document.getElementById(`calc-${name}`);
  Object.keys(units).forEach((method) => find("method").add(new Option(method, method)));

  function inputs() {
    const table = EPSILONS.methods[find("method").value];
    find("inputs").innerHTML = table
      ? table.axes.map((axis) => `<label>${axis.label} <output id="calc-${axis.name}-said"></output>
          <input type="range" id="calc-${axis.name}" min="0" max="${axis.values.length - 1}" step="1"
            value="${Math.floor(axis.values.length / 2)}"></label>`).join("")
      : numbers.map(([name, label, value, least, most, step]) => `<label>${label}
          <input type="number" id="calc-${name}" value="${value}" min="${least}" max="${most}" step="${step}" required></label>`).join("");
    find("inputs").querySelectorAll("input").forEach((input) => input.addEventListener("input", show));
  }

  function looked(table) {
    let at = 0;
    const chosen = {};
    for (const axis of table.axes) {
      const index = Number(find(axis.name).value);
      at = at * axis.values.length + index;
      chosen[axis.name] = axis.values[index];
      find(`${axis.name}-said`).value = axis.values[index];
    }
    return [chosen, Object.fromEntries(Object.entries(table.epsilons).map(([threat, all]) => [threat, all[at]]))];
  }

  function given() {
    const fields = numbers.map(([name]) => find(name));
    if (!fields.every((field) => field.checkValidity())) return null;
    const [sigma, rounds, clients, delta] = fields.map((field) => Number(field.value));
    return [{ sigma, rounds, clients, delta }, sumEpsilons(sigma, rounds, clients, delta)];
  }

  function command(method, chosen) {
    if (method === "fed-cdp") {
      return `gradveil account --sigma ${chosen.sigma} --q ${chosen.q} --rounds ${chosen.rounds} ` +
        `--local-steps ${chosen.local_steps} --client-q ${chosen.client_q}`;
    }
    return method === "fed-sdp"
      ? `gradveil run --method fed-sdp --clip flat:4 --sigma ${chosen.sigma} --rounds ${chosen.rounds} --cohort-sampling poisson`
      : `gradveil run --method fed-sum --sigma ${chosen.sigma} --rounds ${chosen.rounds} --delta ${chosen.delta}`;
  }

  function show() {
    const method = find("method").value, table = EPSILONS.methods[method];
    const answer = table ? looked(table) : given();
    if (!answer) {
      find("rows").replaceChildren();
      find("said").textContent = "A number is missing or out of its range.";
      find("command").textContent = "";
      return;
    }
    const [chosen, epsilons] = answer;
    find("rows").replaceChildren(...Object.entries(epsilons).map(([threat, epsilon]) => {
      const row = document.createElement("tr");
      row.id = `calc-row-${threat}`;
      row.innerHTML = `<th scope="row"><code>${threat}</code></th><td class="gv-number">${epsilon ?? "none"}</td><td></td>`;
      row.lastChild.textContent = EPSILONS.threats[threat];
      return row;
    }));
    const server = epsilons.server === null ? "no finite epsilon" : `epsilon ${epsilons.server}`;
    find("said").textContent = `Against the server: ${server} at delta ${chosen.delta ?? EPSILONS.delta}, for one ${units[method]}.`;
    // A line breaks before an option, not within it.
    find("command").replaceChildren(...command(method, chosen).split(/ (?=--)/).flatMap((part, i) => {
      const words = document.createElement("span");
      words.textContent = part;
      return i ? [" ", words] : [words];
    }));
  }

  find("method").addEventListener("input", () => { inputs(); show(); });
  inputs();
  show();
})();
