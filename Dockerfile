# One image for every service of a game: `docker run --rm slaternet --help`.

# What is used to build; none of it reaches the image.
FROM python:3.11-slim AS tools
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements-build.lock /source/
RUN python -m venv /build && /build/bin/pip install --require-hashes -r /source/requirements-build.lock \
 && python -m venv --without-pip /opt/slaternet

# The libraries, in a layer that stays the same while only the product changes. Bytecode is compiled here, because nothing
# can be written where the image runs, and is never compared with its source again.
FROM tools AS libraries
COPY requirements.lock /source/
RUN /build/bin/pip --python /opt/slaternet/bin/python install --no-compile --require-hashes --only-binary :all: \
      -r /source/requirements.lock \
 && find /opt/slaternet/lib -type d -name tests -prune -exec rm -rf {} + \
 && /opt/slaternet/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/slaternet/lib

FROM tools AS product
COPY . /source
RUN /build/bin/pip wheel --no-build-isolation --no-deps --no-index --wheel-dir /build/dist /source \
 && /build/bin/pip --python /opt/slaternet/bin/python install --no-compile --no-deps --no-index /build/dist/*.whl \
 && /opt/slaternet/bin/python -m compileall -q --invalidation-mode unchecked-hash /opt/slaternet/lib

FROM python:3.11-slim
# A game is started in /slaternet, with examples/ and runs/ in it; /state and /tls hold what survives a restart, and certificates.
# Anyone may write into the mount points: a new volume takes their mode over, and who runs here is said where it is started.
RUN useradd --uid 1000 --no-create-home --home-dir /tmp slaternet \
 && mkdir -p /slaternet/examples /certs \
 && mkdir -m 1777 /slaternet/runs /state /tls /certs/authority /certs/coordinator /certs/adversary /certs/operator /certs/agents
COPY --from=libraries /opt/slaternet /opt/slaternet
COPY --from=product /opt/slaternet /opt/slaternet
# The root may be read-only: what libraries want to keep for themselves goes to /tmp.
ENV PATH=/opt/slaternet/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp MPLCONFIGDIR=/tmp/matplotlib
WORKDIR /slaternet
USER 1000:1000
ENTRYPOINT ["slaternet"]
CMD ["--help"]
