# The daemon: `docker build -t wavewright .`. Every Python package is pinned by its hash, and nothing runs as root.
FROM python:3.12-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements-daemon.lock ./
RUN python -m venv /opt/wavewright \
    && /opt/wavewright/bin/pip install --quiet --require-hashes --requirement requirements-daemon.lock
COPY pyproject.toml README.md LICENSE ./
COPY planner planner
COPY executor executor
COPY reviewer reviewer
COPY tools tools
COPY packs packs
COPY prompts prompts
COPY config config
COPY engine engine
RUN /opt/wavewright/bin/pip install --quiet --no-deps --no-build-isolation .

FROM python:3.12-slim-bookworm
# An init reaps the children that MCP servers and tools leave behind; its release is the image's own.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*
RUN groupadd --gid 10001 wavewright \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/wavewright --shell /usr/sbin/nologin wavewright \
    && install --directory --owner=wavewright --group=wavewright --mode=0700 /var/lib/wavewright \
    && install --directory --owner=wavewright --group=wavewright --mode=0755 /broker /project
COPY --from=build /opt/wavewright /opt/wavewright
ENV PATH=/opt/wavewright/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    WAVEWRIGHT_STATE=/var/lib/wavewright \
    WAVEWRIGHT_HEALTH=0.0.0.0:9464
# The project: its wavewright.yaml, tools, prompts, goal templates.
WORKDIR /project
USER 10001:10001
VOLUME /var/lib/wavewright
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/ready', timeout=2)"]
ENTRYPOINT ["tini", "-s", "--", "wavewright"]
CMD ["daemon"]
