/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * sft/sft.hpp - the C interface as C++17: owners that cannot be copied, views, std::string_view, spans
 * (std::span from C++20 on), exceptions of type sft::error. Header only, nothing to link besides the
 * library; every class gives its C handle with get(), so nothing of the C interface is out of reach.
 *
 * Caveats first: a tensor_view and every view got from it live as long as their catalog; moving a catalog
 * keeps them valid. What sft/source.h says of borrowed memory holds here too.
 *
 *     sft::catalog model("model.safetensors");
 *     std::vector<float> rows = model.at("wte.weight").read_as<float>("0:2");
 */
#ifndef SFT_SFT_HPP
#define SFT_SFT_HPP

#include <sft/sft.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__has_include)
#if __has_include(<version>)
#include <version>
#endif
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif

namespace sft {

#if defined(__cpp_lib_span)
template <class T> using span = std::span<T>;
#else
/* What this header needs of std::span. */
template <class T> class span {
  public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {
    }
    template <class C, class = decltype(static_cast<T *>(std::declval<C &>().data()))>
    constexpr span(C &&container) noexcept : data_(container.data()), size_(container.size()) {
    }
    constexpr T *data() const noexcept {
        return data_;
    }
    constexpr std::size_t size() const noexcept {
        return size_;
    }
    constexpr bool empty() const noexcept {
        return size_ == 0;
    }
    constexpr T &operator[](std::size_t i) const {
        return data_[i];
    }
    constexpr T *begin() const noexcept {
        return data_;
    }
    constexpr T *end() const noexcept {
        return data_ + size_;
    }

  private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};
#endif

/* ---------------------------------------------------------------- errors */

class error : public std::runtime_error {
  public:
    explicit error(const sft_error &e) : std::runtime_error(text(e)), record_(e) {
    }
    sft_status status() const noexcept {
        return static_cast<sft_status>(record_.status);
    }
    std::optional<std::uint64_t> offset() const noexcept {
        if (record_.offset == SFT_NO_OFFSET) {
            return std::nullopt;
        }
        return record_.offset;
    }
    std::string_view tensor() const noexcept {
        return record_.tensor;
    }
    const sft_error &record() const noexcept {
        return record_;
    }

  private:
    static std::string text(const sft_error &e) {
        return e.message[0] != '\0' ? e.message : sft_status_text(e.status);
    }
    sft_error record_;
};

namespace detail {

inline void check(sft_status status, const sft_error &e) {
    if (status != SFT_OK) {
        throw error(e);
    }
}

[[noreturn]] inline void raise(sft_status status, std::string_view tensor, const char *message) {
    sft_error e{};
    e.status = status;
    e.offset = SFT_NO_OFFSET;
    std::strncat(e.message, message, sizeof e.message - 1);
    const std::size_t n = tensor.size() < sizeof e.tensor - 1 ? tensor.size() : sizeof e.tensor - 1;
    for (std::size_t i = 0; i < n; i++) { /* escaped like the library's: printable ASCII stays */
        const char c = tensor[i];
        e.tensor[i] = c >= 0x20 && c < 0x7f ? c : '?';
    }
    throw error(e);
}

inline std::vector<sft_slice> parse_slices(std::string_view text) {
    std::vector<sft_slice> slices(text.size() + 1);
    std::size_t count = 0;
    sft_error e{};
    check(sft_slice_parse(text.data(), text.size(), slices.data(), slices.size(), &count, &e), e);
    slices.resize(count);
    return slices;
}

template <class T> constexpr std::uint32_t dtype_id() {
    static_assert(std::is_arithmetic_v<T>, "an arithmetic type is needed");
    if constexpr (std::is_same_v<T, bool>) {
        return SFT_BOOL;
    } else if constexpr (std::is_floating_point_v<T>) {
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "float or double");
        return sizeof(T) == 4 ? SFT_F32 : SFT_F64;
    } else if constexpr (std::is_signed_v<T>) {
        return sizeof(T) == 1   ? SFT_I8
               : sizeof(T) == 2 ? SFT_I16
               : sizeof(T) == 4 ? SFT_I32
                                : SFT_I64;
    } else {
        return sizeof(T) == 1   ? SFT_U8
               : sizeof(T) == 2 ? SFT_U16
               : sizeof(T) == 4 ? SFT_U32
                                : SFT_U64;
    }
}

} // namespace detail

/* ---------------------------------------------------------------- reading */

class tensor_view {
  public:
    tensor_view(const sft_catalog *catalog, const sft_tensor *tensor) noexcept
        : catalog_(catalog), tensor_(tensor) {
    }
    std::string_view name() const noexcept {
        return {tensor_->name, tensor_->name_len};
    }
    const sft_dtype &dtype() const noexcept {
        return *tensor_->dtype;
    }
    span<const std::uint64_t> shape() const noexcept {
        return {tensor_->shape, tensor_->rank};
    }
    std::uint64_t nbytes() const noexcept {
        return tensor_->nbytes;
    }
    const sft_tensor *get() const noexcept {
        return tensor_;
    }

    /* The bytes where they lie: little-endian, any alignment, as long as the catalog. */
    span<const std::byte> borrow() const {
        const void *data = nullptr;
        std::size_t size = 0;
        sft_error e{};
        detail::check(sft_tensor_borrow(catalog_, tensor_, &data, &size, &e), e);
        return {static_cast<const std::byte *>(data), size};
    }

    /* Bytes of the tensor, or of a slice in Python's form ("0:2, ::-1, 3"), as in the file. */
    std::vector<std::byte> read(std::string_view slices = {}) const {
        return fetch<std::byte>(slices, nullptr, 0);
    }
    void read_into(span<std::byte> out, std::string_view slices = {}) const {
        const std::vector<sft_slice> parsed = detail::parse_slices(slices);
        const sft_read_options options = request(parsed, nullptr, 0);
        sft_error e{};
        detail::check(sft_tensor_read(catalog_, tensor_, &options, out.data(), out.size(), &e), e);
    }

    /* Elements converted to T, in the machine's byte order. */
    template <class T> std::vector<T> read_as(std::string_view slices = {}) const {
        static_assert(!std::is_same_v<T, bool>,
                      "std::vector<bool> has no bytes: use unsigned char");
        return fetch<T>(slices, sft_dtype_get(detail::dtype_id<T>()), SFT_READ_HOST_ORDER);
    }

    /* Shape of what read(slices) gives. */
    std::vector<std::uint64_t> result_shape(std::string_view slices) const {
        const std::vector<sft_slice> parsed = detail::parse_slices(slices);
        const sft_read_options options = request(parsed, nullptr, 0);
        std::vector<std::uint64_t> shape(tensor_->rank);
        std::uint32_t rank = 0;
        sft_error e{};
        detail::check(sft_tensor_result(tensor_, &options, shape.data(), &rank, nullptr, &e), e);
        shape.resize(rank);
        return shape;
    }

  private:
    static sft_read_options request(const std::vector<sft_slice> &slices, const sft_dtype *dtype,
                                    std::uint32_t flags) {
        sft_read_options options;
        SFT_INIT(&options);
        options.slices = slices.empty() ? nullptr : slices.data();
        options.slice_count = slices.size();
        options.dtype = dtype;
        options.flags = flags;
        return options;
    }

    template <class T>
    std::vector<T> fetch(std::string_view slices, const sft_dtype *dtype,
                         std::uint32_t flags) const {
        const std::vector<sft_slice> parsed = detail::parse_slices(slices);
        const sft_read_options options = request(parsed, dtype, flags);
        std::uint64_t nbytes = 0;
        sft_error e{};
        detail::check(sft_tensor_result(tensor_, &options, nullptr, nullptr, &nbytes, &e), e);
        if (nbytes > SIZE_MAX) {
            detail::raise(SFT_E_OVERFLOW, name(), "result does not fit this machine's memory");
        }
        std::vector<T> out(static_cast<std::size_t>(nbytes) / sizeof(T));
        detail::check(
            sft_tensor_read(catalog_, tensor_, &options, out.data(), out.size() * sizeof(T), &e),
            e);
        return out;
    }

    const sft_catalog *catalog_;
    const sft_tensor *tensor_;
};

class catalog {
  public:
    explicit catalog(const std::string &path, const sft_open_options *options = nullptr) {
        sft_error e{};
        detail::check(sft_catalog_open(&handle_, path.c_str(), options, &e), e);
    }
    /* The bytes are not copied: they must stay until the catalog is gone. */
    explicit catalog(span<const std::byte> bytes, const sft_open_options *options = nullptr) {
        sft_error e{};
        detail::check(sft_catalog_open_memory(&handle_, bytes.data(), bytes.size(), options, &e),
                      e);
    }
    /* Takes over a handle of the C interface. */
    explicit catalog(sft_catalog *handle) noexcept : handle_(handle) {
    }
    catalog(catalog &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {
    }
    catalog &operator=(catalog &&other) noexcept {
        if (this != &other) {
            sft_catalog_close(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    catalog(const catalog &) = delete;
    catalog &operator=(const catalog &) = delete;
    ~catalog() {
        sft_catalog_close(handle_);
    }

    std::size_t size() const noexcept {
        return sft_catalog_count(handle_);
    }
    tensor_view operator[](std::size_t index) const noexcept {
        return {handle_, sft_catalog_at(handle_, index)};
    }
    std::optional<tensor_view> find(std::string_view name) const noexcept {
        const sft_tensor *t = sft_catalog_find(handle_, name.data(), name.size());
        if (t == nullptr) {
            return std::nullopt;
        }
        return tensor_view(handle_, t);
    }
    tensor_view at(std::string_view name) const {
        const sft_tensor *t = sft_catalog_find(handle_, name.data(), name.size());
        if (t == nullptr) {
            detail::raise(SFT_E_NOT_FOUND, name, "no tensor of this name");
        }
        return {handle_, t};
    }
    /* The metadata value of a key, from the file of that index. */
    std::optional<std::string_view> metadata(std::string_view key,
                                             std::size_t file = 0) const noexcept {
        std::size_t size = 0;
        const char *value = sft_catalog_metadata_find(handle_, file, key.data(), key.size(), &size);
        if (value == nullptr) {
            return std::nullopt;
        }
        return std::string_view(value, size);
    }
    const sft_catalog *get() const noexcept {
        return handle_;
    }
    sft_catalog *release() noexcept {
        return std::exchange(handle_, nullptr);
    }

    class iterator {
      public:
        using value_type = tensor_view;
        using difference_type = std::ptrdiff_t;
        using reference = tensor_view;
        using pointer = void;
        using iterator_category = std::input_iterator_tag;

        iterator(const catalog *owner, std::size_t index) noexcept : owner_(owner), index_(index) {
        }
        tensor_view operator*() const noexcept {
            return (*owner_)[index_];
        }
        iterator &operator++() noexcept {
            ++index_;
            return *this;
        }
        iterator operator++(int) noexcept {
            iterator old = *this;
            ++index_;
            return old;
        }
        bool operator==(const iterator &other) const noexcept {
            return index_ == other.index_;
        }
        bool operator!=(const iterator &other) const noexcept {
            return index_ != other.index_;
        }

      private:
        const catalog *owner_;
        std::size_t index_;
    };
    iterator begin() const noexcept {
        return {this, 0};
    }
    iterator end() const noexcept {
        return {this, size()};
    }

  private:
    sft_catalog *handle_ = nullptr;
};

/* ---------------------------------------------------------------- writing */

/* Declares, puts, commits; without commit() nothing appears at the path. */
class writer {
  public:
    explicit writer(const std::string &path, const sft_write_options *options = nullptr) {
        sft_error e{};
        detail::check(sft_writer_create(&handle_, path.c_str(), options, &e), e);
    }
    writer(writer &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {
    }
    writer &operator=(writer &&other) noexcept {
        if (this != &other) {
            sft_writer_free(handle_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    writer(const writer &) = delete;
    writer &operator=(const writer &) = delete;
    ~writer() {
        sft_writer_free(handle_);
    }

    void metadata(std::string_view key, std::string_view value) {
        sft_error e{};
        /* A view may have a null pointer when it is empty; the C interface reads that as "no key". */
        const char *k = key.data() != nullptr ? key.data() : "";
        const char *v = value.data() != nullptr ? value.data() : "";
        detail::check(sft_writer_metadata(handle_, k, key.size(), v, value.size(), &e), e);
    }
    std::uint32_t declare(std::string_view name, sft_dtype_id dtype,
                          span<const std::uint64_t> shape) {
        std::uint32_t index = 0;
        sft_error e{};
        detail::check(
            sft_writer_declare(handle_, name.data() != nullptr ? name.data() : "", name.size(),
                               sft_dtype_get(static_cast<std::uint32_t>(dtype)), shape.data(),
                               static_cast<std::uint32_t>(shape.size()), &index, &e),
            e);
        return index;
    }
    std::uint32_t declare(std::string_view name, sft_dtype_id dtype,
                          std::initializer_list<std::uint64_t> shape) {
        return declare(name, dtype, span<const std::uint64_t>(shape.begin(), shape.size()));
    }
    void put(std::uint32_t index, std::uint64_t offset, span<const std::byte> bytes) {
        sft_error e{};
        detail::check(sft_writer_put(handle_, index, offset, bytes.data(), bytes.size(), &e), e);
    }
    /* Elements of a little-endian machine; others convert first (sft_convert). */
    template <class T> void put(std::uint32_t index, const std::vector<T> &elements) {
        put(index, 0,
            span<const std::byte>(reinterpret_cast<const std::byte *>(elements.data()),
                                  elements.size() * sizeof(T)));
    }
    void commit() {
        sft_error e{};
        detail::check(sft_writer_commit(handle_, &e), e);
    }
    sft_writer *get() noexcept {
        return handle_;
    }

  private:
    sft_writer *handle_ = nullptr;
};

} // namespace sft

#endif
