//! The JVM: loads its library at run time, attaches threads to it, and makes the few calls into it.
//!
//! This is the only file of the crate with unsafe code. It relies on three things: `Slot.java` and `Machine.java` have the methods named
//! here with these signatures (the jar's version is checked before anything else); an [`AttachedThread`] stays on its thread; and all
//! references passed to it were made here.

#![allow(unsafe_code, reason = "Rust cannot check the Java side of a call")]

use std::ffi::{CString, c_char, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{ptr, thread};

use jni_sys::{
    JNI_OK, JNI_VERSION_10, JNIEnv, JavaVM, JavaVMAttachArgs, JavaVMInitArgs, JavaVMOption, jclass,
    jfieldID, jint, jlong, jmethodID, jobject, jvalue,
};

/// The required result of `Machine.version`.
const VERSION: jint = 1;

/// Version 11 of the tool interface (JVMTI). This value and the next three are from `jvmti.h`.
const JVMTI_11: jint = 0x300B_0000;

/// The bit of the capability to stop threads.
const CAN_SIGNAL_THREAD: u32 = 1 << 10;

/// The index of the function `StopThread`.
const STOP_THREAD: usize = 6;

/// The index of the function `AddCapabilities`.
const ADD_CAPABILITIES: usize = 141;

type Create = unsafe extern "system" fn(*mut *mut JavaVM, *mut *mut c_void, *mut c_void) -> jint;
type ToolCall<A> = unsafe extern "system" fn(*mut c_void, A) -> jint;
type ToolStop = unsafe extern "system" fn(*mut c_void, jobject, jobject) -> jint;

/// Handle of the JVM, which lives as long as the process, because Java cannot be started twice in one process.
#[derive(Clone, Copy)]
pub(crate) struct Vm {
    vm: *mut JavaVM,
    tools: *mut c_void,
    methods: Methods,
}

// SAFETY: the invocation and tool interfaces may be called from any thread, and method ids and global references are valid on
// all of them.
unsafe impl Send for Vm {}
// SAFETY: as above.
unsafe impl Sync for Vm {}

#[derive(Clone, Copy)]
struct Methods {
    machine: jclass,
    heap_used: jmethodID,
    heap_max: jmethodID,
    stop: jmethodID,
    slot: jclass,
    new: jmethodID,
    compile: jmethodID,
    said: jmethodID,
    reserve: jmethodID,
    run: jmethodID,
    out: jfieldID,
}

/// A global reference to a Java object, released by [`AttachedThread::forget`].
pub(crate) struct GlobalRef(jobject);

// SAFETY: global references are valid on all threads.
unsafe impl Send for GlobalRef {}
// SAFETY: as above, and a shared object is changed only by Java's own rules.
unsafe impl Sync for GlobalRef {}

/// The attachment of this thread to the JVM. Detached when dropped.
pub(crate) struct AttachedThread {
    vm: Vm,
    env: *mut JNIEnv,
    /// Prevents the value from being sent to another thread.
    here: PhantomData<*mut ()>,
}

/// The memory of a thread on the Java side; see `Slot.java`.
pub(crate) struct Slot {
    object: GlobalRef,
    input: GlobalRef,
    room: usize,
}

/// Calls a JNI function; [`AttachedThread::thrown`] then fetches an exception.
macro_rules! call {
    ($env:expr, $name:ident $(, $argument:expr)*) => {
        // SAFETY: the environment is this thread's, and the arguments have the types of the function, by the rules at the top of this file.
        unsafe { ((**$env).v1_2.$name)($env $(, $argument)*) }
    };
}

/// Callback for the case that the JVM aborts while it starts.
static GIVES_UP: Mutex<Option<Box<dyn FnOnce() + Send>>> = Mutex::new(None);

/// Called by the JVM before it ends the process. While the JVM is starting, nothing else depends on it: the starting thread parks here
/// instead of returning, and the gateway continues without Java. Later, it is a crash that ends the process.
extern "C" fn abort() {
    if let Some(tell) = gives_up(None) {
        tell();
        loop {
            thread::park();
        }
    }
}

fn gives_up(tell: Option<Box<dyn FnOnce() + Send>>) -> Option<Box<dyn FnOnce() + Send>> {
    std::mem::replace(&mut GIVES_UP.lock().unwrap_or_else(PoisonError::into_inner), tell)
}

impl Vm {
    /// Loads the library and starts the JVM on this thread, which stays attached. If the JVM aborts while it starts, `tell` is called and
    /// this function never returns.
    pub(crate) fn start(
        libjvm: &Path,
        options: &[String],
        tell: impl FnOnce() + Send + 'static,
    ) -> Result<AttachedThread, String> {
        let texts = options.iter().map(|option| CString::new(option.as_str()));
        let texts: Vec<CString> = texts.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
        let option = |text: &CString| JavaVMOption {
            optionString: text.as_ptr().cast_mut(),
            extraInfo: ptr::null_mut(),
        };
        let mut options: Vec<JavaVMOption> = texts.iter().map(option).collect();
        options.push(JavaVMOption {
            optionString: c"abort".as_ptr().cast_mut(),
            extraInfo: abort as extern "C" fn() as *mut c_void,
        });
        let mut arguments = JavaVMInitArgs {
            version: JNI_VERSION_10,
            nOptions: jint::try_from(options.len()).unwrap_or(jint::MAX),
            options: options.as_mut_ptr(),
            ignoreUnrecognized: false,
        };
        remove_signal_stack();
        let (mut vm, mut env) = (ptr::null_mut::<JavaVM>(), ptr::null_mut::<c_void>());
        gives_up(Some(Box::new(tell)));
        // SAFETY: it is a library that the operator named or the system installed as Java's, and the function of that name has
        // this signature by the specification; it is never unloaded. The arguments outlive the call.
        let code = unsafe {
            let library = libloading::Library::new(libjvm).map_err(|error| error.to_string())?;
            let create = library.get::<Create>(b"JNI_CreateJavaVM\0");
            let create = *create.map_err(|error| error.to_string())?;
            std::mem::forget(library);
            create(&raw mut vm, &raw mut env, (&raw mut arguments).cast())
        };
        gives_up(None);
        if code != JNI_OK || vm.is_null() || env.is_null() {
            return Err(format!("the JVM does not start (code {code})"));
        }
        let none = ptr::null_mut();
        let methods = Methods {
            machine: none,
            heap_used: ptr::null_mut(),
            heap_max: ptr::null_mut(),
            stop: ptr::null_mut(),
            slot: none,
            new: ptr::null_mut(),
            compile: ptr::null_mut(),
            said: ptr::null_mut(),
            reserve: ptr::null_mut(),
            run: ptr::null_mut(),
            out: ptr::null_mut(),
        };
        let vm = Vm { vm, tools: ptr::null_mut(), methods };
        let mut attached = AttachedThread { vm, env: env.cast(), here: PhantomData };
        attached.vm.methods = attached.methods()?;
        attached.vm.tools = attached.tools()?;
        Ok(attached)
    }

    /// Attaches this thread to the JVM.
    pub(crate) fn attach(self, name: &str) -> Result<AttachedThread, String> {
        remove_signal_stack();
        let name = CString::new(name).map_err(|error| error.to_string())?;
        let mut arguments = JavaVMAttachArgs {
            version: JNI_VERSION_10,
            name: name.as_ptr().cast_mut(),
            group: ptr::null_mut(),
        };
        let mut env = ptr::null_mut::<c_void>();
        // SAFETY: the JVM lives as long as the process, and the arguments outlive the call.
        let code = unsafe {
            let attach = (**self.vm).v1_4.AttachCurrentThreadAsDaemon;
            attach(self.vm, &raw mut env, (&raw mut arguments).cast())
        };
        if code == JNI_OK && !env.is_null() {
            Ok(AttachedThread { vm: self, env: env.cast(), here: PhantomData })
        } else {
            Err(format!("a thread cannot be attached (code {code})"))
        }
    }
}

/// Removes the small alternate signal stack that Rust gives its threads. Java's own frequent signals need more stack than that.
fn remove_signal_stack() {
    let none = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
    // SAFETY: the argument outlives the call, and this thread is not on that stack.
    // Harmless: a thread that keeps its stack works as before.
    let _ = unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
}

/// Makes this thread a batch thread, which does not preempt the worker that wakes it. The worker continues with other ready tasks, and
/// several messages are transformed in one time slice. If they share a core, switching back and forth for nearly each message took an
/// eighth to a quarter of a request's time.
pub(crate) fn use_batch_scheduling() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the argument outlives the call, which affects only this thread.
    // Harmless: if the system refuses, nothing changes.
    let _ = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}

/// The clock of a thread's CPU time.
#[derive(Clone, Copy)]
pub(crate) struct CpuClock(Option<libc::clockid_t>);

impl CpuClock {
    pub(crate) fn of_this_thread() -> CpuClock {
        let mut clock = 0;
        // SAFETY: this thread lives, and the argument outlives the call.
        let code = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
        CpuClock((code == 0).then_some(clock))
    }

    /// Returns the CPU time, or `None` if the system does not report it or the thread has ended.
    pub(crate) fn used(&self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the argument outlives the call, and a clock of a thread that has ended is refused.
        let code = unsafe { libc::clock_gettime(self.0?, &raw mut time) };
        let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        (code == 0).then_some(Duration::new(seconds.ok()?, nanos.ok()?))
    }
}

impl AttachedThread {
    pub(crate) fn vm(&self) -> Vm {
        self.vm
    }

    /// Looks up the methods of the classes in the jar.
    fn methods(&self) -> Result<Methods, String> {
        let machine = self.class(c"tidegate/saxon/Machine")?;
        let version = self.static_method(machine, c"version", c"()I")?;
        let version = call!(self.env, CallStaticIntMethodA, machine, version, ptr::null());
        self.thrown()?;
        if version != VERSION {
            return Err(format!(
                "the jar is of version {version} and the program of {VERSION}: take both from one build"
            ));
        }
        let slot = self.class(c"tidegate/saxon/Slot")?;
        let bytes = c"[B";
        let out = call!(self.env, GetFieldID, slot, c"out".as_ptr(), bytes.as_ptr());
        self.thrown()?;
        Ok(Methods {
            machine,
            heap_used: self.static_method(machine, c"heapUsed", c"()J")?,
            heap_max: self.static_method(machine, c"heapMax", c"()J")?,
            stop: self.static_method(machine, c"stop", c"()Ljava/lang/Throwable;")?,
            slot,
            new: self.method(slot, c"<init>", c"()V")?,
            compile: self.method(slot, c"compile", c"()Ltidegate/saxon/Sheet;")?,
            said: self.method(slot, c"said", c"()I")?,
            reserve: self.method(slot, c"reserve", c"(I)[B")?,
            run: self.method(slot, c"run", c"(Ltidegate/saxon/Sheet;IZI)J")?,
            out,
        })
    }

    /// Returns the tool interface with the capability to stop threads.
    fn tools(&self) -> Result<*mut c_void, String> {
        let mut tools = ptr::null_mut::<c_void>();
        // A capability is a bit; the struct has four words.
        let wanted = [CAN_SIGNAL_THREAD, 0, 0, 0];
        // SAFETY: the interface of that version is a pointer to a table of functions, of which this one takes the set of
        // capabilities.
        let codes = unsafe {
            let got = ((**self.vm.vm).v1_2.GetEnv)(self.vm.vm, &raw mut tools, JVMTI_11);
            if got != JNI_OK || tools.is_null() {
                return Err(format!("this JVM has no tool interface (code {got})"));
            }
            tool::<ToolCall<*const u32>>(tools, ADD_CAPABILITIES)(tools, wanted.as_ptr())
        };
        match codes {
            0 => Ok(tools),
            code => Err(format!("this JVM cannot stop threads (code {code})")),
        }
    }

    /// Returns the Java object of this thread, for [`AttachedThread::stop`].
    pub(crate) fn this_thread(&self) -> Result<GlobalRef, String> {
        let class = self.class(c"java/lang/Thread")?;
        let current = self.static_method(class, c"currentThread", c"()Ljava/lang/Thread;")?;
        let thread = call!(self.env, CallStaticObjectMethodA, class, current, ptr::null());
        self.thrown()?;
        let kept = self.keep(thread);
        self.forget(GlobalRef(class));
        kept
    }

    /// Throws an error into another thread, whatever it is running.
    pub(crate) fn stop(&self, thread: &GlobalRef) -> Result<(), String> {
        let methods = &self.vm.methods;
        let error =
            call!(self.env, CallStaticObjectMethodA, methods.machine, methods.stop, ptr::null());
        self.thrown()?;
        // SAFETY: the function at this index takes a thread and the error to throw into it.
        let code =
            unsafe { tool::<ToolStop>(self.vm.tools, STOP_THREAD)(self.vm.tools, thread.0, error) };
        call!(self.env, DeleteLocalRef, error);
        match code {
            0 => Ok(()),
            code => Err(format!("the thread cannot be stopped (code {code})")),
        }
    }

    /// Returns the number of heap bytes in use and the maximum size of the heap.
    pub(crate) fn heap(&self) -> Result<(u64, u64), String> {
        let methods = &self.vm.methods;
        let number = |method| {
            let number =
                call!(self.env, CallStaticLongMethodA, methods.machine, method, ptr::null());
            self.thrown().map(|()| u64::try_from(number).unwrap_or(0))
        };
        Ok((number(methods.heap_used)?, number(methods.heap_max)?))
    }

    /// Releases an object to the garbage collector.
    pub(crate) fn forget(&self, kept: GlobalRef) {
        call!(self.env, DeleteGlobalRef, kept.0);
    }

    /// Creates a slot for this thread.
    pub(crate) fn slot(&self) -> Result<Slot, String> {
        let methods = &self.vm.methods;
        let object = call!(self.env, NewObjectA, methods.slot, methods.new, ptr::null());
        self.thrown()?;
        let object = self.keep(object)?;
        let input = self.input(&object, 0)?;
        let mut slot = Slot { object, input, room: 0 };
        slot.room = self.length(slot.input.0);
        Ok(slot)
    }

    /// Compiles a stylesheet. Returns `None` if that fails; the text then contains the errors.
    pub(crate) fn compile(
        &self,
        slot: &mut Slot,
        request: &[u8],
        said: &mut Vec<u8>,
    ) -> Result<Option<GlobalRef>, String> {
        self.put(slot, request)?;
        let methods = &self.vm.methods;
        let sheet = call!(self.env, CallObjectMethodA, slot.object.0, methods.compile, ptr::null());
        self.thrown()?;
        if !sheet.is_null() {
            return self.keep(sheet).map(Some);
        }
        let length = call!(self.env, CallIntMethodA, slot.object.0, methods.said, ptr::null());
        self.thrown()?;
        self.take(slot, usize::try_from(length).unwrap_or(0), said)?;
        Ok(None)
    }

    /// Transforms a message. Returns the result code as in `Slot.java`, and the output or the error message.
    pub(crate) fn run(
        &self,
        slot: &mut Slot,
        sheet: &GlobalRef,
        message: &[u8],
        json: bool,
        output_bytes_max: usize,
    ) -> Result<(u32, Vec<u8>), String> {
        self.put(slot, message)?;
        let arguments = [
            jvalue { l: sheet.0 },
            jvalue { i: small(message.len())? },
            jvalue { z: json },
            jvalue { i: jint::try_from(output_bytes_max).unwrap_or(jint::MAX) },
        ];
        let run = self.vm.methods.run;
        let ended: jlong = call!(self.env, CallLongMethodA, slot.object.0, run, arguments.as_ptr());
        self.thrown()?;
        let mut out = Vec::new();
        let length = usize::try_from(ended & 0x7fff_ffff).unwrap_or(0);
        self.take(slot, length, &mut out)?;
        Ok((u32::try_from(ended >> 32).unwrap_or(u32::MAX), out))
    }

    fn put(&self, slot: &mut Slot, bytes: &[u8]) -> Result<(), String> {
        let length = small(bytes.len())?;
        if bytes.len() > slot.room || slot.room > KEPT_BYTES_MAX {
            let larger = self.input(&slot.object, length)?;
            self.forget(std::mem::replace(&mut slot.input, larger));
            slot.room = self.length(slot.input.0);
        }
        // The JVM checks the bounds itself, and throws an exception if they are wrong.
        call!(self.env, SetByteArrayRegion, slot.input.0, 0, length, bytes.as_ptr().cast());
        self.thrown()
    }

    fn take(&self, slot: &Slot, length: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let array = call!(self.env, GetObjectField, slot.object.0, self.vm.methods.out);
        out.clear();
        out.reserve_exact(length);
        call!(self.env, GetByteArrayRegion, array, 0, small(length)?, out.as_mut_ptr().cast());
        let thrown = self.thrown();
        call!(self.env, DeleteLocalRef, array);
        thrown?;
        // SAFETY: this many bytes are reserved, and the call above has written them, because it did not throw.
        unsafe {
            out.set_len(length);
        }
        Ok(())
    }

    fn input(&self, slot: &GlobalRef, length: jint) -> Result<GlobalRef, String> {
        let arguments = [jvalue { i: length }];
        let reserve = self.vm.methods.reserve;
        let array = call!(self.env, CallObjectMethodA, slot.0, reserve, arguments.as_ptr());
        self.thrown()?;
        self.keep(array)
    }

    fn length(&self, array: jobject) -> usize {
        usize::try_from(call!(self.env, GetArrayLength, array)).unwrap_or(0)
    }

    /// Converts a local reference to a global one.
    fn keep(&self, local: jobject) -> Result<GlobalRef, String> {
        let kept = call!(self.env, NewGlobalRef, local);
        call!(self.env, DeleteLocalRef, local);
        if kept.is_null() {
            Err("the JVM has no memory left".to_owned())
        } else {
            Ok(GlobalRef(kept))
        }
    }

    fn class(&self, name: &std::ffi::CStr) -> Result<jclass, String> {
        let class = call!(self.env, FindClass, name.as_ptr());
        self.thrown().map_err(|error| format!("{}: {error}", name.to_string_lossy()))?;
        self.keep(class).map(|kept| kept.0)
    }

    fn static_method(
        &self,
        class: jclass,
        name: &std::ffi::CStr,
        signature: &std::ffi::CStr,
    ) -> Result<jmethodID, String> {
        let method = call!(self.env, GetStaticMethodID, class, name.as_ptr(), signature.as_ptr());
        self.thrown().map(|()| method)
    }

    fn method(
        &self,
        class: jclass,
        name: &std::ffi::CStr,
        signature: &std::ffi::CStr,
    ) -> Result<jmethodID, String> {
        let method = call!(self.env, GetMethodID, class, name.as_ptr(), signature.as_ptr());
        self.thrown().map(|()| method)
    }

    /// Returns and clears the pending exception, if there is one.
    fn thrown(&self) -> Result<(), String> {
        let error = call!(self.env, ExceptionOccurred);
        if error.is_null() {
            return Ok(());
        }
        call!(self.env, ExceptionClear);
        let text = self.text(error);
        call!(self.env, DeleteLocalRef, error);
        Err(text)
    }

    /// Returns the object's `toString`.
    fn text(&self, object: jobject) -> String {
        let unknown = || "an error of the JVM".to_owned();
        let class = call!(self.env, GetObjectClass, object);
        let (name, signature) = (c"toString", c"()Ljava/lang/String;");
        let method = call!(self.env, GetMethodID, class, name.as_ptr(), signature.as_ptr());
        call!(self.env, DeleteLocalRef, class);
        if method.is_null() {
            call!(self.env, ExceptionClear);
            return unknown();
        }
        let text = call!(self.env, CallObjectMethodA, object, method, ptr::null());
        call!(self.env, ExceptionClear);
        if text.is_null() {
            return unknown();
        }
        let chars: *const c_char = call!(self.env, GetStringUTFChars, text, ptr::null_mut());
        let said = if chars.is_null() {
            unknown()
        } else {
            // SAFETY: it is a text that ends in zero, valid until it is released below.
            let said = unsafe { std::ffi::CStr::from_ptr(chars) };
            let said = said.to_string_lossy().into_owned();
            call!(self.env, ReleaseStringUTFChars, text, chars);
            said
        };
        call!(self.env, DeleteLocalRef, text);
        said
    }
}

impl Drop for AttachedThread {
    fn drop(&mut self) {
        // SAFETY: this thread is attached, and nothing uses the environment after it.
        // Harmless: an error can be ignored, because this attachment is not used any more.
        let _ = unsafe { ((**self.vm.vm).v1_2.DetachCurrentThread)(self.vm.vm) };
    }
}

impl Slot {
    /// Takes the references of the slot, to release them. The slot must not be used afterwards.
    pub(crate) fn take_kept(&mut self) -> [GlobalRef; 2] {
        let none = || GlobalRef(ptr::null_mut());
        [std::mem::replace(&mut self.object, none()), std::mem::replace(&mut self.input, none())]
    }
}

/// Maximum amount of memory kept between messages; `Output.java` has the same number.
const KEPT_BYTES_MAX: usize = 1 << 20;

fn small(length: usize) -> Result<jint, String> {
    jint::try_from(length).map_err(|_| "it is over 2 GiB".to_owned())
}

/// Returns a function of the tool interface by its index.
///
/// # Safety
/// `tools` must be a tool interface, and the function at that index must have the type `F`.
unsafe fn tool<F: Copy>(tools: *mut c_void, place: usize) -> F {
    // SAFETY: the caller guarantees this.
    unsafe { *(*tools.cast::<*const *const c_void>()).add(place).cast::<F>() }
}
