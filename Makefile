# A short front to CMake; `make help` lists what it does.

PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
SANITIZE ?=
ARCH ?=
CUDA_ARCHITECTURES ?=
CUDA ?= $(if $(CUDA_ARCHITECTURES),1)
CUDA_KERNELS ?=

comma := ,
BUILD := build$(if $(ARCH),-$(ARCH))$(if $(SANITIZE),-sanitize-$(subst $(comma),-,$(SANITIZE)))

# CMake's own make takes neither our variables nor our job server: it gets JOBS.
CMAKE := env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL cmake
CONFIGURE = $(CMAKE) -S . -B $(BUILD) --log-level=NOTICE \
	-DDYNO_SANITIZE=$(SANITIZE) -DDYNO_ARCH=$(ARCH) \
	$(if $(CUDA),-DDYNO_CUDA=$(patsubst 0,off,$(patsubst 1,on,$(CUDA))) \
		-DDYNO_CUDA_ARCHITECTURES='$(CUDA_ARCHITECTURES)' -DDYNO_CUDA_KERNELS='$(CUDA_KERNELS)') \
	-DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)) > /dev/null
COMPILE = $(CMAKE) --build $(BUILD) -j $(JOBS)

BENCH ?= --model small --context 128,256 --pass forward,forward+backward,step \
	--warmup 5 --steps 10 --out runs/bench

.PHONY: all demo test bench format install clean help

all:
	@scripts/install-deps build
	@$(CONFIGURE)
	@$(COMPILE) --target products

demo: all
	@scripts/demo $(BUILD)/dyno

test:
	@scripts/install-deps test
	@$(CONFIGURE)
	@$(COMPILE)
	@scripts/run-tests $(BUILD) $(JOBS)

bench: all
	$(BUILD)/dyno bench $(BENCH)

format:
	@scripts/format

install: all
	@DESTDIR=$(DESTDIR) $(CMAKE) --install $(BUILD)

clean:
	rm -rf build build-*

help:
	@echo "make                build $(BUILD)/dyno and $(BUILD)/libdyno.{a,so}"
	@echo "make demo           build, then a minute's tour: doctor, bench, plan, report"
	@echo "make test           build and run every test; the last line is 'N passed, N failed'"
	@echo "make bench          time the small model (BENCH='...' gives other flags to dyno bench)"
	@echo "make format         format the sources with clang-format"
	@echo "make install        install into PREFIX (/usr/local), below DESTDIR if that is set"
	@echo "make clean          remove every build directory"
	@echo
	@echo "SANITIZE=address,undefined   build with sanitizers, in a build directory of its own"
	@echo "ARCH=native                  build for this kind of CPU only (-march), in its own too"
	@echo "CUDA=1                       build the CUDA module for every kind of GPU (0: not at all);"
	@echo "                             else it is built where there is a GPU, for that one"
	@echo "CUDA_ARCHITECTURES=90a       build the CUDA module for this kind of GPU only"
	@echo "CUDA_KERNELS=build           with CUDA=1: link the kernels that are compiled in build/"
	@echo "JOBS=N                       compile and test N at a time ($(JOBS))"
