SwaggerUIBundle({
  url: OPENAPI_URL,
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
  presets: [SwaggerUIBundle.presets.apis],
});
