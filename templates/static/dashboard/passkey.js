// Passkeys. A form with data-passkey asks the browser to "create" one or to "get" a proof of one, and sends what the browser says.
// The options are JSON in the element that data-options names, or come from the form's own address. Without scripts or support the
// form stays hidden, and the page works without it.
"use strict";

const decode = (text) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
const encode = (buffer) =>
  btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");

const REASONS = {
  InvalidStateError: "This device already has a passkey for you.",
  NotAllowedError: "Your browser did not confirm a passkey. Try again.",
  SecurityError: "Passkeys work only on named hosts over HTTPS, or on localhost.",
};

// WebAuthn wants bytes where JSON has text.
function withBytes({ publicKey }) {
  const bytes = (credentials) => (credentials || []).map((each) => ({ ...each, id: decode(each.id) }));
  const options = { ...publicKey, challenge: decode(publicKey.challenge) };
  if (options.user) options.user = { ...options.user, id: decode(options.user.id) };
  options.excludeCredentials = bytes(options.excludeCredentials);
  options.allowCredentials = bytes(options.allowCredentials);
  return options;
}

function withText(credential) {
  const response = {};
  for (const name of ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"]) {
    if (credential.response[name]) response[name] = encode(credential.response[name]);
  }
  return {
    id: credential.id,
    rawId: encode(credential.rawId),
    type: credential.type,
    response,
    clientExtensionResults: credential.getClientExtensionResults(),
  };
}

async function readOptions(form) {
  const element = document.getElementById(form.dataset.options);
  if (element) return JSON.parse(element.textContent);
  const reply = await fetch(form.action, { headers: { Accept: "application/json" } });
  if (!reply.ok) throw new Error("Too many sign-in attempts. Try again later.");
  return (await reply.json()).request_options;
}

async function ask(form) {
  const publicKey = withBytes(await readOptions(form));
  if (form.dataset.passkey === "get") return navigator.credentials.get({ publicKey });
  if (form.elements.passwordless.checked) {
    Object.assign(publicKey.authenticatorSelection, {
      residentKey: "required", requireResidentKey: true, userVerification: "required",
    });
  }
  return navigator.credentials.create({ publicKey });
}

for (const form of document.querySelectorAll("form[data-passkey]")) {
  if (!window.PublicKeyCredential) continue;
  form.hidden = false;
  const alert = form.querySelector("[role=alert][hidden]");
  form.querySelector("button[type=button]").addEventListener("click", async (event) => {
    event.target.disabled = true;
    alert.hidden = true;
    try {
      form.elements.credential.value = JSON.stringify(withText(await ask(form)));
      form.submit();
    } catch (error) {
      alert.textContent = REASONS[error.name] || error.message;
      alert.hidden = false;
      event.target.disabled = false;
    }
  });
}
