// client-go-peer measures Kubernetes' client-go in the workloads of the deltafifo benchmark.
//
// It is a child process: the benchmark starts it once for each turn, reads JSON lines from its
// standard output (see protocol.go), and compares them with the lines of the children in Rust.
// Nothing else is printed there. An error is one line on standard error, with exit status 1.
//
//	client-go-peer --engine E --workload W[,W...] --objects N
//	    [--input FILE] [--seconds S] [--events K] [--variant V[,V...]]
//	client-go-peer --version-only
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"
)

const (
	engineDeltaFIFO = "client-go-deltafifo"
	engineRealFIFO  = "client-go-realfifo"
	engineInformer  = "client-go-informer"
	// engineUnstructured runs the workload cache only.
	engineUnstructured = "client-go-unstructured"
)

var (
	engineNames   = []string{engineDeltaFIFO, engineRealFIFO, engineInformer}
	workloadNames = []string{"initial", "relist", "churn", "events", "stall", "readers", "queries", "slow-handler", "workqueue", "memory", "cache"}
)

// options are the checked arguments.
type options struct {
	engine      string
	workloads   []string
	variants    []string
	objects     int
	events      int
	duration    time.Duration
	input       string
	secondList  string
	versionOnly bool
}

func (o *options) asks(workload string) bool { return slices.Contains(o.workloads, workload) }

// wants returns whether a variant is to be run. Without named variants all of them are.
func (o *options) wants(variant string) bool {
	return len(o.variants) == 0 || slices.Contains(o.variants, variant)
}

func main() {
	quietLogs()
	if err := run(os.Args[1:], os.Stdout); err != nil {
		message := strings.Join(strings.Fields(err.Error()), " ")
		fmt.Fprintln(os.Stderr, "client-go-peer: "+message)
		os.Exit(1)
	}
}

// quietLogs keeps client-go's traces of slow pops, which a relist of a million objects causes, away
// from standard error. Errors of client-go are still printed there.
func quietLogs() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "ERROR"} {
		if err := flags.Set(name, value); err != nil {
			panic(err) // this version of klog has no such flags
		}
	}
	klog.SetOutput(io.Discard)
}

func run(args []string, stdout io.Writer) error {
	opts, err := parse(args)
	if err != nil {
		return err
	}
	out := &output{to: stdout}
	if opts.versionOnly {
		return out.version()
	}
	if opts.asks("cache") {
		if err := runCache(opts, out); err != nil {
			return err
		}
		return out.done()
	}
	data, err := openSource(opts)
	if err != nil {
		return err
	}
	if opts.asks("initial") || opts.asks("relist") || opts.asks("churn") {
		if err := runLists(opts, data, out); err != nil {
			return err
		}
	}
	for _, workload := range []struct {
		name string
		run  func(*options, source, *output) error
	}{
		{"events", runEvents}, {"stall", runStall}, {"readers", runReaders}, {"queries", runQueries},
		{"slow-handler", runSlowHandler}, {"workqueue", runWorkQueue}, {"memory", runMemory},
	} {
		if opts.asks(workload.name) {
			if err := workload.run(opts, data, out); err != nil {
				return err
			}
		}
	}
	return out.done()
}

func parse(args []string) (*options, error) {
	flags := flag.NewFlagSet("client-go-peer", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // an unknown flag is reported in one line, without the usage
	opts := &options{}
	var workloads, variants string
	var seconds float64
	flags.StringVar(&opts.engine, "engine", "", "engine to measure")
	flags.StringVar(&workloads, "workload", "", "workloads, separated by commas")
	flags.StringVar(&variants, "variant", "", "variants to run, all if empty")
	flags.IntVar(&opts.objects, "objects", 1_000_000, "number of objects")
	flags.IntVar(&opts.events, "events", 0, "number of events, twice the objects if 0")
	flags.Float64Var(&seconds, "seconds", 10, "time of the offers to each queue of a stall run, and of reads during relists")
	flags.StringVar(&opts.input, "input", "", "LIST response to take objects from")
	flags.StringVar(&opts.secondList, "second-list", "", "LIST response of a relist, for the workload cache")
	flags.BoolVar(&opts.versionOnly, "version-only", false, "print the version and exit")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if opts.versionOnly {
		return opts, nil
	}
	if known := append(slices.Clone(engineNames), engineUnstructured); !slices.Contains(known, opts.engine) {
		return nil, fmt.Errorf("unknown engine %q, know %s", opts.engine, strings.Join(known, ", "))
	}
	if workloads == "" {
		return nil, errors.New("no --workload given, know " + strings.Join(workloadNames, ", "))
	}
	opts.workloads = strings.Split(workloads, ",")
	for _, workload := range opts.workloads {
		if !slices.Contains(workloadNames, workload) {
			return nil, fmt.Errorf("unknown workload %q, know %s", workload, strings.Join(workloadNames, ", "))
		}
	}
	if variants != "" {
		opts.variants = strings.Split(variants, ",")
	}
	known := slices.Concat(eventVariants(), stallVariants())
	for _, variant := range opts.variants {
		// The caller may name the bursts of other engines. client-go has no such call, and so no
		// row.
		if !slices.Contains(known, strings.TrimSuffix(variant, "-burst")) {
			return nil, fmt.Errorf("unknown variant %q, know %s", variant, strings.Join(known, ", "))
		}
	}
	if opts.objects < 1 {
		return nil, fmt.Errorf("--objects must be 1 or more, not %d", opts.objects)
	}
	if opts.events < 0 {
		return nil, fmt.Errorf("--events must be 1 or more, not %d", opts.events)
	}
	if opts.events == 0 {
		opts.events = 2 * opts.objects
	}
	if !(seconds > 0 && seconds <= 3600) {
		return nil, fmt.Errorf("--seconds must be above 0 and at most 3600, not %v", seconds)
	}
	opts.duration = time.Duration(seconds * float64(time.Second))
	return opts, nil
}
