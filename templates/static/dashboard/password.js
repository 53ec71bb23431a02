// A button that reveals each password, and the strength of a new one. Pages work without it; the server has the last word.
"use strict";

const WORDS = ["Too short: 12 characters or more", "Weak: few different characters", "Fair", "Good", "Strong"];

function strength(password) {
  const characters = [...password];
  if (characters.length < 12) return 0;
  if (new Set(characters).size < 6) return 1;
  return characters.length < 16 ? 2 : characters.length < 20 ? 3 : 4;
}

function addReveal(input) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "reveal";
  button.setAttribute("aria-controls", input.id);
  const show = (isShown) => {
    input.type = isShown ? "text" : "password";
    button.textContent = isShown ? "Hide" : "Show";
  };
  show(false);
  button.addEventListener("click", () => show(input.type === "password"));
  input.form.addEventListener("submit", () => show(false)); // so that no browser remembers it as plain text
  input.after(button);
  return button;
}

function addMeter(input, button) {
  const meter = document.createElement("meter");
  const words = document.createElement("span");
  meter.max = WORDS.length - 1;
  meter.low = 1.5;
  meter.high = 2.5;
  meter.optimum = meter.max;
  meter.setAttribute("aria-label", "Strength");
  words.className = "strength small";
  words.setAttribute("role", "status");
  const update = () => {
    meter.value = strength(input.value);
    words.textContent = input.value ? WORDS[meter.value] : "";
  };
  update();
  input.addEventListener("input", update);
  button.after(meter, words);
}

for (const input of document.querySelectorAll("input[type=password]")) {
  const button = addReveal(input);
  if (/(^|_)password1$/.test(input.name)) addMeter(input, button);
}
